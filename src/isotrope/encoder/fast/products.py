"""Matrix products in float32 by the library that is fast on this processor.

torch takes Intel's MKL for them, which uses half of the width of an AMD processor's AVX-512. torch
also brings oneDNN, which uses all of it, and takes it for float32 if it is told that rounding to
bf16 is allowed. Without Intel's AMX, oneDNN does not round then, and `uses_onednn` makes sure of
it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch

_ALLOWED = "bf16"  # what oneDNN may round to, and does not


@cache
def uses_onednn() -> bool:
    """Whether products in float32 are oneDNN's here: on AMD's AVX-512, where it rounds nothing."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not _is_amd():
        return False
    setting = _setting()
    if setting is None or setting.fp32_precision != "none":  # somebody else has chosen
        return False
    with _onednn():
        return _is_exact()


@contextmanager
def fast_products() -> Iterator[None]:
    """Multiply in float32 as fast as this processor can; the results differ in their last bits."""
    if not uses_onednn():
        yield
        return
    with _onednn():
        yield


def are_onednn() -> bool:
    """Whether products in float32 are oneDNN's at this moment."""
    setting = _setting()
    return setting is not None and setting.fp32_precision == _ALLOWED


@contextmanager
def _onednn() -> Iterator[None]:
    setting = _setting()
    before = setting.fp32_precision
    setting.fp32_precision = _ALLOWED
    try:
        yield
    finally:
        setting.fp32_precision = before


def _setting() -> Any:
    """Where torch keeps how exact oneDNN's products are; None before torch 2.9."""
    return getattr(torch.backends.mkldnn, "matmul", None)


def _is_amd() -> bool:
    cpuinfo = Path("/proc/cpuinfo")  # of Linux
    return cpuinfo.is_file() and "AuthenticAMD" in cpuinfo.read_text()


def _is_exact() -> bool:
    """Whether a product keeps the 24 bits of float32; bf16 has 8."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(256, 256, generator=generator)
    product = torch.mm(x, x)
    expected = torch.mm(x.double(), x.double())
    return torch.allclose(product.double(), expected, rtol=1e-5)
