"""A preset's file: TOML, laid over what it extends, under ``key=value`` overrides. Nothing is
imported, only read.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from isotrope.errors import UserError, check_known

TomlTable = dict[str, Any]
# the packages of the files of each kind
SHIPPED = {"preset": "isotrope.presets", "study": "isotrope.studies"}


def shipped_names(kind: str) -> list[str]:
    """The presets or the studies that come with isotrope."""
    found = (path.name for path in files(SHIPPED[kind]).iterdir())
    return sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml"))


def preset_names() -> list[str]:
    """The presets that come with isotrope."""
    return shipped_names("preset")


def preset_descriptions() -> dict[str, str]:
    """Name -> what it is, of the presets that come with isotrope. Only their files are read."""
    return {name: resolved_tables(name).get("description", "") for name in preset_names()}


def read_toml(kind: str, name: str, children: Sequence[Any] = ()) -> tuple[Any, TomlTable]:
    """The path and the tables of a preset or study: a shipped one by name, or the user's by path
    (.toml).

    The path is relative to the file that extends it, the last of ``children``, or else to the
    current folder.
    """
    if name.endswith(".toml"):
        path: Any = (children[-1].parent / name if children else Path(name)).resolve()
        if not path.is_file():
            said = (
                f"{kind} {name}, which {children[-1].name} extends,"
                if children
                else f"{kind} {name}"
            )
            raise UserError(
                f"{said} does not exist",
                f"check the path{f' from {path.parent}' if children else ''}",
            )
    else:
        check_known(kind, name, shipped_names(kind), ", or a .toml file")
        path = files(SHIPPED[kind]).joinpath(f"{name}.toml")
    try:
        return path, tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{kind} {name} is not valid TOML ({error})", "correct that line"
        ) from error


def preset_layers(name: str) -> dict[Any, TomlTable]:
    """Path -> tables, of a preset's file and those that it extends; the one that extends nothing
    comes first.
    """
    layers: dict[Any, TomlTable] = {}
    wanted = name
    while wanted:
        path, own = read_toml("preset", wanted, [*layers])
        if path in layers:
            circle = " → ".join(part.name.removesuffix(".toml") for part in [*layers, path])
            raise UserError(f"preset {name} extends itself ({circle})", "break the circle")
        wanted = str(own.pop("extends", ""))
        if layers:
            own.pop("description", None)
        layers[path] = own
    return dict(reversed(layers.items()))


def resolved_tables(name: str, overrides: Iterable[str] = ()) -> TomlTable:
    """A preset's tables over those that it extends, with overrides."""
    tables: TomlTable = {}
    for layer in [*preset_layers(name).values(), *map(_parse_override, overrides)]:
        _merge(tables, layer)
    return tables


def leaves(table: Mapping[str, Any], prefix: str = "") -> TomlTable:
    """Dotted key -> value; an empty table is a value."""
    found: TomlTable = {}
    for key, value in table.items():
        inner = isinstance(value, Mapping) and value
        found |= leaves(inner, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
    return found


def _merge(base: TomlTable, top: TomlTable) -> None:
    """Lay ``top`` over ``base``, in place; ``name = false`` takes an inherited table away, out of
    the order too.
    """
    for key, value in top.items():
        if value is False and isinstance(base.get(key), dict):
            del base[key]
            if key in base.get("order", []):
                base["order"] = [label for label in base["order"] if label != key]
        elif isinstance(value, dict) and isinstance(base.get(key), dict):
            _merge(base[key], value)
        else:
            base[key] = value


def _parse_override(text: str) -> TomlTable:
    """``train.batch_size=32`` -> {"train": {"batch_size": 32}}; a value that is not TOML is a
    string.
    """
    key, sign, value = text.partition("=")
    if not sign or not re.fullmatch(r"\w[\w-]*(\.\w[\w-]*)*", key.strip()):
        raise UserError(
            f"--set {text}: not of the form key=value",
            "write, for example, --set train.batch_size=32",
        )
    try:
        parsed: Any = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    for part in reversed(key.strip().split(".")):
        parsed = {part: parsed}
    return parsed  # type: ignore[no-any-return]
