"""The processes that share a run, and the machine that they run on."""

import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import torch.distributed as distributed
import xxhash

from isotrope.console.processes import process_count as process_count
from isotrope.console.processes import process_number as process_number
from isotrope.encoder.fast.products import uses_onednn
from isotrope.errors import Stopped, UserError


def refuse_several(command: str) -> None:
    """Refuse to run in several processes: each would do the whole work, and all would write to the
    same place.
    """
    count = process_count()
    if count > 1:
        problem = f"{command} needs one process, not {count}"
        remedy = "start it without a launcher such as torchrun"
        raise UserError(problem, remedy, code="several-processes")


@contextmanager
def with_others() -> Iterator[None]:
    """Compute with other processes. If one of them is lost, so is the work since the last
    checkpoint.
    """
    try:
        yield
    except RuntimeError as error:
        # gloo has no class of its own for it
        is_lost = isinstance(error, distributed.DistError) or "gloo" in str(error)
        if process_count() == 1 or not is_lost:
            raise
        raise Stopped("another process of this run has ended", code=1) from error


def leave(*, failed: bool) -> None:
    """Leave the other processes. Without this, gloo's threads may abort Python at its end (pytorch
    issue 190489).

    After a failure NCCL would wait for processes that wait for this one, so torchrun ends those.
    """
    if not distributed.is_initialized() or (failed and distributed.get_backend() == "nccl"):
        return
    distributed.destroy_process_group()


PACKAGES = (
    "isotrope",
    "torch",
    "sentence-transformers",
    "transformers",
    "tokenizers",
    "accelerate",
    "datasets",
    "numpy",
    "scipy",
    "scikit-learn",
)


def environment() -> dict[str, Any]:
    """Versions, processor and devices, without paths or names of the machine."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "kernels": _kernels(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "processes": process_count(),
        "packages": {package: version(package) for package in PACKAGES},
        "source": source(Path(__file__).parents[1]),
        "commit": commit(Path(__file__)),
    }


def _kernels() -> str:
    """What multiplies on the processor, and so decides the last digits."""
    capability = torch.backends.cpu.get_cpu_capability()
    return f"{capability}, oneDNN" if uses_onednn() else capability


@cache
def source(root: Path) -> str:
    """xxh3 (64 bits, hexadecimal) of a package's code and presets: equal in a checkout, an
    installation and a copy.
    """
    paths = [*root.rglob("*.py"), *root.glob("presets/*.toml")]
    digest = xxhash.xxh3_64()
    for name in sorted(path.relative_to(root).as_posix() for path in paths):
        content = (root / name).read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{name}\n".encode() + content + b"\0")
    return digest.hexdigest()


@cache
def commit(file: Path) -> str | None:
    """The commit of a file's git checkout, with "-dirty" if tracked files are changed; None if git
    does not track it.

    So a package that is installed below a user's own repository does not take that one's commit.
    """
    try:
        _git(file.parent, "ls-files", "--error-unmatch", file.name)
        return _git(file.parent, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(folder: Path, *words: str) -> str:
    """What git prints. It takes no lock, which would stay if this process is killed."""
    command = ["git", "--no-optional-locks", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()
