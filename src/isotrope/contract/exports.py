"""Lazy exports: ``from isotrope.terms import InfoNCE`` imports the module of InfoNCE only then.

See PEP 562. Without it, listing the names of components would wait for torch.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(
    room: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a room (its ``__name__``), by a table: name -> module."""

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(import_module(f"{room}.{modules[name]}"), name)

    return get, lambda: sorted(modules)
