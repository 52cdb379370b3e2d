"""Text: whatever the user gives → opened text → cleaned rows or documents → tokens → batches."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isotrope.text.collection import Documents
    from isotrope.text.corpus import Corpus
    from isotrope.text.opened import Opened, open

_FACE = {"open": "opened", "Opened": "opened", "Documents": "collection", "Corpus": "corpus"}
__all__ = ["Corpus", "Documents", "Opened", "open"]


def __getattr__(name: str) -> Any:
    if name not in _FACE:
        raise AttributeError(f"module 'isotrope.text' has no attribute {name!r}")
    return getattr(importlib.import_module(f"isotrope.text.{_FACE[name]}"), name)
