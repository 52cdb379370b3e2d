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
from isotrope.errors import Stopped, UserError


def refuse_several(command: str) -> None:
    """Refuse to run in several processes: each would do the whole work, and all would write to the
    same place.
    """
    if (count := process_count()) > 1:
        raise UserError(
            f"{command} needs one process, not {count}",
            "start it without a launcher such as torchrun",
        )


@contextmanager
def with_others() -> Iterator[None]:
    """Computing with other processes: if one of them is lost, so is the work since the last
    checkpoint.
    """
    try:
        yield
    except RuntimeError as error:
        # gloo has no class of its own for it
        if process_count() == 1 or not (
            isinstance(error, distributed.DistError) or "gloo" in str(error)
        ):
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
    "isotrope", "torch", "sentence-transformers", "transformers", "tokenizers", "accelerate", "datasets", "numpy",
    "scipy", "scikit-learn",
)  # fmt: skip


def environment() -> dict[str, Any]:
    """Versions, processor and devices, without paths or names of the machine."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "kernels": torch.backends.cpu.get_cpu_capability(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "processes": process_count(),
        "packages": {package: version(package) for package in PACKAGES},
        "source": source(Path(__file__).parents[1]),
        "commit": commit(Path(__file__)),
    }


@cache
def source(root: Path) -> str:
    """xxh3 (64 bits, hexadecimal) of a package's code and presets: equal in a checkout, an
    installation and a copy.
    """
    files = sorted(
        path.relative_to(root).as_posix()
        for path in (*root.rglob("*.py"), *root.glob("presets/*.toml"))
    )
    total = xxhash.xxh3_64()
    for name in files:
        total.update(
            f"{name}\n".encode() + (root / name).read_bytes().replace(b"\r\n", b"\n") + b"\0"
        )
    return total.hexdigest()


@cache
def commit(file: Path) -> str | None:
    """The commit of a file's git checkout, with "-dirty" if tracked files are changed; None if git
    does not track it.

    So a package that is installed below a user's own repository does not take that one's commit.
    """
    tracked, described = (
        ["ls-files", "--error-unmatch", file.name],
        "describe --always --dirty --abbrev=40 --exclude=*",
    )
    try:
        for command in (tracked, described.split()):
            # a lock would stay if this process is killed
            git = ["git", "--no-optional-locks", *command]
            found = subprocess.run(git, cwd=file.parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()
