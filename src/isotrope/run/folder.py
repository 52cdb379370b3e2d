"""A run's folder: whose it is, and what is written there whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isotrope.errors import UserError

RESULT, IDENTITY = "result.json", "run.json"


def check(folder: Path, identity: Mapping[str, Any], resume: bool) -> None:
    """Refuse another run's folder. An identity's value that is still empty is not compared.

    Raises:
        UserError: the folder holds something else, a run that was not to be resumed, or one with other settings.
    """
    if not (folder / IDENTITY).is_file():
        if any(path.name != f"{IDENTITY}.part" for path in folder.iterdir()):  # which a kill may have left
            raise UserError(f"{folder} is not empty and holds no run", "choose a new or an empty folder")
        return
    if not resume:
        raise UserError(f"{folder} holds a run already", "add --resume to go on with it, or choose another --output")
    began = read(folder / IDENTITY)
    for key, value in identity.items():
        then = began.get(key)
        if value != "" and then != value:
            shown = "the preset or its overrides" if key == "preset" else f"{key} = {value!r} (then {then!r})"
            raise UserError(f"{folder} holds a run with other settings: {shown}", "resume with those it began with")


def claim(folder: Path, identity: Mapping[str, Any], texts: Mapping[str, str]) -> None:
    """Everything has been checked: the folder is this run's from now on. The identity first: with it, it can resume."""
    for name, text in {IDENTITY: json.dumps(identity, indent=2), **texts}.items():
        if not (folder / name).is_file():
            write(folder / name, text)


def read(path: Path) -> dict[str, Any]:
    """A JSON object that a run wrote.

    Raises:
        UserError: it is damaged.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise UserError(f"{path} is damaged", "put it right, or choose another --output")
    return record


def write(path: Path, text: str) -> None:
    """Whole or not at all."""
    draft = path.with_name(path.name + ".part")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
