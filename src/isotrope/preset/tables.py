"""A preset's file: TOML, laid over what it extends, under ``key=value`` overrides. Nothing is imported, only read."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from isotrope.errors import UserError, one_of

TomlTable = dict[str, Any]
DEEPEST = 8  # tables within tables; a preset has two, and options may be lists
LONGEST = 32  # presets that extend one another


def preset_names() -> list[str]:
    """The presets that come with isotrope."""
    return sorted(
        path.name.removesuffix(".toml") for path in files("isotrope.presets").iterdir() if path.name.endswith(".toml")
    )


def preset_descriptions() -> dict[str, str]:
    """Name -> what it is, of the presets that come with isotrope. Only their files are read."""
    return {name: resolved_tables(name).get("description", "") for name in preset_names()}


def resolved_tables(name: str, overrides: Iterable[str] = ()) -> TomlTable:
    """A preset's tables over those that it extends, with overrides.

    Raises:
        UserError: no such preset, broken TOML, a circle or too long a chain of ``extends``, too deep a nesting.
    """
    layers, seen = list[TomlTable](), list[Any]()
    wanted: str | None = name
    while wanted:
        path = _find(wanted, seen)
        if path in seen:
            circle = " → ".join(part.name.removesuffix(".toml") for part in [*seen, path])
            raise UserError(f"preset {name} extends itself ({circle})", "break the circle")
        if len(seen) == LONGEST:
            raise UserError(f"preset {name} extends more than {LONGEST} presets in a row", "shorten the chain")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"preset {wanted} cannot be read ({error})", "give a readable file in UTF-8") from error
        own = _parsed(text, f"preset {wanted}", "correct that line")
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


def _parsed(text: str, what: str, remedy: str) -> TomlTable:
    """TOML text -> tables of bounded depth, which all that follows may walk by recursion."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{what} is not valid TOML ({error})", remedy) from error
    except RecursionError:
        raise _too_deep(what) from None
    _check_depth(tables, what)
    return tables


def _check_depth(tables: TomlTable, what: str) -> None:
    level: list[Any] = [tables]
    for _ in range(DEEPEST):
        inside = [value for each in level for value in (each.values() if isinstance(each, dict) else each)]
        level = [value for value in inside if isinstance(value, dict | list)]
    if level:
        raise _too_deep(what)


def _too_deep(what: str) -> UserError:
    return UserError(f"{what} nests tables or lists more than {DEEPEST} deep", "write [stage.name] tables")


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
    except RecursionError:
        raise _too_deep(f"--set {key.strip()[:60]}") from None
    for part in reversed(key.strip().split(".")):
        parsed = {part: parsed}
    _check_depth(parsed, f"--set {key.strip()[:60]}")
    return parsed  # type: ignore[no-any-return]
