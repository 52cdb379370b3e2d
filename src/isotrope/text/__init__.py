"""Text: whatever the user gives → opened text → cleaned rows or documents → tokens → batches."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isotrope.text.corpus import Documents, Texts
    from isotrope.text.opened import Opened, open

_FACE = {"open": "opened", "Opened": "opened", "Documents": "corpus", "Texts": "corpus"}
__all__ = ["Documents", "Opened", "Texts", "open"]


def __getattr__(name: str) -> Any:
    if name not in _FACE:
        raise AttributeError(f"module 'isotrope.text' has no attribute {name!r}")
    return getattr(importlib.import_module(f"isotrope.text.{_FACE[name]}"), name)
