"""isotrope: text without labels in, a better sentence-embedding model out, and a verdict on it.

The names below are loaded when they are first used, so that importing the package, and ``isotrope
--help``, stay quick.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isotrope.components.registry import component
    from isotrope.compression.compress import compress
    from isotrope.encoder import load
    from isotrope.encoding.encode import encode
    from isotrope.encoding.search import search
    from isotrope.evaluation.suite import SuiteEvaluator
    from isotrope.evaluation.suite import run as evaluate
    from isotrope.improvement.improve import improve
    from isotrope.improvement.whiten import whiten
    from isotrope.objective.objective import Objective
    from isotrope.preset.preset import read_preset
    from isotrope.preset.tables import preset_names
    from isotrope.training.onnx import export_onnx as export
    from isotrope.training.train import train
    from isotrope.training.trainer import ObjectiveState

    __version__: str

_FACE = {
    "improve": "isotrope.improvement.improve:improve",
    "compress": "isotrope.compression.compress:compress",
    "train": "isotrope.training.train:train",
    "whiten": "isotrope.improvement.whiten:whiten",
    "encode": "isotrope.encoding.encode:encode",
    "search": "isotrope.encoding.search:search",
    "evaluate": "isotrope.evaluation.suite:run",
    "export": "isotrope.training.onnx:export_onnx",
    "load": "isotrope.encoder:load",
    "component": "isotrope.components.registry:component",
    "preset_names": "isotrope.preset.tables:preset_names",
    "read_preset": "isotrope.preset.preset:read_preset",
    "Objective": "isotrope.objective.objective:Objective",
    "ObjectiveState": "isotrope.training.trainer:ObjectiveState",
    "SuiteEvaluator": "isotrope.evaluation.suite:SuiteEvaluator",
}
__all__ = [
    "Objective", "ObjectiveState", "SuiteEvaluator", "__version__", "component", "compress",
    "encode", "evaluate", "export", "improve", "load", "preset_names", "read_preset", "search",
    "train", "whiten",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("isotrope")
    if name not in _FACE:
        raise AttributeError(f"module 'isotrope' has no attribute {name!r}")
    module, attribute = _FACE[name].split(":")
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
