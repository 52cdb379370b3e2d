"""isotrope: a pile of plain sentences in, a better sentence-embedding model out, and the truth about it.

The names below are loaded when they are first used, so that importing the package, and ``isotrope --help``, stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isotrope.bulk import encode
    from isotrope.encoder import load
    from isotrope.evaluation.suite import run as evaluate
    from isotrope.objective import Objective
    from isotrope.registry import component
    from isotrope.training.run import train

_FACE = {
    "train": "isotrope.training.run:train",
    "evaluate": "isotrope.evaluation.suite:run",
    "encode": "isotrope.bulk:encode",
    "load": "isotrope.encoder:load",
    "component": "isotrope.registry:component",
    "Objective": "isotrope.objective:Objective",
}
__all__ = ["Objective", "component", "encode", "evaluate", "load", "train"]


def __getattr__(name: str) -> Any:
    if name not in _FACE:
        raise AttributeError(f"module 'isotrope' has no attribute {name!r}")
    module, attribute = _FACE[name].split(":")
    return getattr(importlib.import_module(module), attribute)
