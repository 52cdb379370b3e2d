"""A preset's file: TOML, laid over what it extends, under ``key=value`` overrides. Nothing is imported, only read."""

import re
import tomllib
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from isotrope.errors import UserError, one_of

TomlTable = dict[str, Any]


def preset_names() -> list[str]:
    """The presets that come with isotrope."""
    return sorted(
        path.name.removesuffix(".toml") for path in files("isotrope.presets").iterdir() if path.name.endswith(".toml")
    )


def preset_descriptions() -> dict[str, str]:
    """Name -> what it is, of the presets that come with isotrope. Only their files are read."""
    return {name: resolved_tables(name).get("description", "") for name in preset_names()}


def resolved_tables(name: str, overrides: Iterable[str] = ()) -> TomlTable:
    """A preset's tables over those that it extends, with overrides."""
    layers, seen = list[TomlTable](), list[Any]()
    wanted: str | None = name
    while wanted:
        path = _find(wanted, seen)
        if path in seen:
            circle = " → ".join(part.name.removesuffix(".toml") for part in [*seen, path])
            raise UserError(f"preset {name} extends itself ({circle})", "break the circle")
        try:
            own = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"preset {wanted} is not valid TOML ({error})", "correct that line") from error
        parent = own.pop("extends", None)
        if not isinstance(parent, str | None):
            raise UserError(f"preset {wanted}: extends = {parent!r} is not possible", "name one preset or .toml file")
        if layers:
            own.pop("description", None)
        layers.append(own)
        seen.append(path)
        wanted = parent
    tables: TomlTable = {}
    for layer in [*reversed(layers), *map(_parse_override, overrides)]:
        _merge(tables, layer)
    return tables


def _find(name: str, children: list[Any]) -> Any:
    """A shipped preset by name; a .toml file from the folder of the preset that extends it, or from here."""
    if not name.endswith(".toml"):
        if name not in preset_names():
            known = one_of(name, preset_names(), ", or a .toml file")
            raise UserError(f"preset {name!r} is unknown", known)
        return files("isotrope.presets").joinpath(f"{name}.toml")
    path = (children[-1].parent / name if children else Path(name)).resolve()
    if not path.is_file():
        said = f"preset {name}, which {children[-1].name} extends," if children else f"preset {name}"
        raise UserError(f"{said} does not exist", f"check the path{f' from {path.parent}' if children else ''}")
    return path


def _merge(base: TomlTable, top: TomlTable) -> TomlTable:
    """Lay ``top`` over ``base``, in place; ``name = false`` takes an inherited table away, out of the order too."""
    for key, value in top.items():
        if value is False and isinstance(base.get(key), dict):
            del base[key]
            if key in base.get("order", []):
                base["order"] = [label for label in base["order"] if label != key]
        elif isinstance(value, dict) and isinstance(base.get(key), dict):
            _merge(base[key], value)
        else:
            base[key] = value
    return base


def _parse_override(text: str) -> TomlTable:
    """``train.batch_size=32`` -> {"train": {"batch_size": 32}}; a value that is not TOML is a string."""
    key, sign, value = text.partition("=")
    if not sign or not re.fullmatch(r"\w[\w-]*(\.\w[\w-]*)*", key.strip()):
        raise UserError(f"--set {text}: not of the form key=value", "write, for example, --set train.batch_size=32")
    try:
        parsed: Any = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    for part in reversed(key.strip().split(".")):
        parsed = {part: parsed}
    return parsed  # type: ignore[no-any-return]
