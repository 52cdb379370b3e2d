"""``from isotrope.terms import InfoNCE``: a room gives its components by the names of their
classes, on demand.

A component's file is all that has to be written, so no list of names is kept: they are read from
the files' text.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

_CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)


@cache
def classes_in(folders: tuple[str, ...]) -> dict[str, str]:
    """Class -> module, read from the files' text. Files whose names begin with an underscore hold
    helpers.
    """
    files = [file for folder in folders for file in sorted(Path(folder).glob("[!_]*.py"))]
    return {
        name: file.stem
        for file in files
        for name in _CLASS.findall(file.read_text(encoding="utf-8"))
    }


def exports(
    room: str, folders: Iterable[str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a room (its ``__name__``, its ``__path__``); no file is
    imported before.
    """
    modules = partial(classes_in, tuple(folders))

    def get(name: str) -> Any:
        if name not in modules():
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(import_module(f"{room}.{modules()[name]}"), name)

    return get, lambda: sorted(modules())
