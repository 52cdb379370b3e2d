"""The machine and the versions of a run, kept beside its result."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

PACKAGES = ("isotrope", "torch", "sentence-transformers", "transformers", "accelerate", "datasets", "numpy", "scipy")


def environment() -> dict[str, Any]:
    """Versions, processor and devices, without paths or names of the machine."""
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:  # pragma: no cover
            versions[package] = None
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpus": gpus,
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "packages": versions,
    }
