"""Alignment as a loss: against loops and the golden number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from drawn import cosines_of, draw
from isotrope.terms.alignment import alignment
from oracle import ranking as oracle


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("shape", [(2, 2), (5, 5), (3, 4, 4)])
def test_equals_the_loops(shape: tuple[int, ...], dtype: torch.dtype, tolerance: float) -> None:
    anchors, positives = draw(*shape[-2:], dtype=dtype), draw(*shape, seed=1, dtype=dtype)
    expected = oracle.alignment(anchors, positives)
    assert alignment(anchors, positives).item() == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_golden_numbers(golden: Path, dtype: torch.dtype, tolerance: float) -> None:
    value = {name: torch.from_numpy(array) for name, array in np.load(golden / "equations.npz").items()}
    h, positive = (value[name].to(dtype) for name in ("h", "h_pos"))
    found = {"align": alignment(h, positive)}
    for name, loss in found.items():
        assert loss.dtype == dtype
        assert loss.item() == pytest.approx(value[name].item(), abs=tolerance), name


@pytest.mark.parametrize("shape", [(4, 4), (2, 4, 4)])
def test_gradient(shape: tuple[int, ...]) -> None:
    anchors = draw(4, 4, seed=1)
    assert torch.autograd.gradcheck(lambda c: alignment(anchors, c), cosines_of(*shape).requires_grad_())


def test_opposites_are_four_apart() -> None:
    spread = torch.eye(6, dtype=torch.float64)
    assert alignment(spread, -spread).item() == pytest.approx(4)
