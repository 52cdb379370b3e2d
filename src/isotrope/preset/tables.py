"""A preset's file: TOML, laid over what it extends, under ``key=value`` overrides. Nothing is
imported, only read.

A shipped method is one file. Its settings for the papers' other backbones are the tables
``[sizes.NAME]`` in it, each laid over the rest of the file: ``simcse-bert-base`` is the table
``[sizes.bert-base]`` of ``simcse.toml``.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from isotrope.errors import UserError, check_known

TomlTable = dict[str, Any]
SHIPPED = {"preset": "isotrope.presets", "study": "isotrope.studies"}  # the packages of the files
SIZES = "sizes"
_DOTTED_KEY = re.compile(r"\w[\w-]*(\.\w[\w-]*)*")


@dataclass(frozen=True)
class Layer:
    """The tables of one preset, without those that it extends."""

    name: str
    path: Any  # a `Path`, or a file of the package
    tables: TomlTable
    size: str | None = None  # the table of the file that it is; None: the rest of the file


def shipped_names(kind: str) -> list[str]:
    """The files of presets or studies that come with isotrope."""
    folder = files(SHIPPED[kind])
    paths = [Path(file.name) for file in folder.iterdir()]
    return sorted(path.stem for path in paths if path.suffix == ".toml")


@cache
def shipped_sizes() -> dict[str, tuple[str, str]]:
    """Preset -> its file and its table there, of the presets that are tables of a method's file."""
    sizes = {}
    for method in shipped_names("preset"):
        _, tables = read_toml("preset", method)
        for size in tables.get(SIZES, {}):
            name = f"{method}-{size}"
            sizes[name] = (method, size)
    return sizes


def preset_names() -> list[str]:
    """The presets that come with isotrope."""
    methods = shipped_names("preset")
    return sorted([*methods, *shipped_sizes()])


def preset_descriptions() -> dict[str, str]:
    """Name -> what it is, of the presets that come with isotrope. Only their files are read."""
    descriptions = {}
    for name in preset_names():
        tables = resolved_tables(name)
        descriptions[name] = tables.get("description", "")
    return descriptions


def read_toml(
    kind: str,
    name: str,
    extended_by: Path | None = None,
) -> tuple[Any, TomlTable]:
    """The path and the tables of a file: a shipped one by name, or the user's by path (.toml).

    The path is relative to the file that extends it, or else to the current folder.
    """
    path: Any
    if name.endswith(".toml"):
        path = _own_file(kind, name, extended_by)
    else:
        if name not in shipped_names(kind):
            names = preset_names() if kind == "preset" else shipped_names(kind)
            check_known(kind, name, names, ", or a .toml file")
        path = files(SHIPPED[kind]) / f"{name}.toml"
    try:
        text = path.read_text(encoding="utf-8")
        return path, tomllib.loads(text)
    except (OSError, ValueError) as error:
        problem = f"{kind} {name} is not valid TOML ({error})"
        raise UserError(problem, "correct that line", code="broken-toml") from error


def _own_file(
    kind: str,
    name: str,
    extended_by: Path | None,
) -> Path:
    folder = extended_by.parent if extended_by else Path()
    path = (folder / name).resolve()
    if not path.is_file():
        problem = f"{kind} {name} does not exist"
        remedy = f"check the path, which begins in {folder.resolve()}"
        raise UserError(problem, remedy, code="missing-file")
    return path


def preset_layers(name: str) -> list[Layer]:
    """A preset and those that it extends; the one that extends nothing comes first."""
    layers: list[Layer] = []
    extended = name
    while extended:
        extended_by = layers[-1].path if layers else None
        layer = _read_layer(extended, extended_by)
        seen = [(lower.path, lower.size) for lower in layers]
        if (layer.path, layer.size) in seen:
            problem = f"preset {name} extends itself, by way of {extended}"
            raise UserError(problem, "break the circle", code="extends-itself")
        extended = str(layer.tables.pop("extends", ""))
        if layers:
            layer.tables.pop("description", None)
        layers.append(layer)
    return layers[::-1]


def _read_layer(name: str, extended_by: Path | None) -> Layer:
    """The tables of one preset, before those that it extends are below them.

    A shipped size, such as simcse-bert-base, lies over its method. ``extended_by`` is the file that
    names this one.
    """
    sizes = shipped_sizes()
    if name in sizes:
        method, size = sizes[name]
        path, tables = read_toml("preset", method)
        own_tables = tables[SIZES][size]
        return Layer(name, path, {"extends": method, **own_tables}, size)
    path, tables = read_toml("preset", name, extended_by)
    if not name.endswith(".toml"):
        tables.pop(SIZES, None)
    return Layer(name, path, tables)


def resolved_tables(
    name: str,
    overrides: Iterable[str] = (),  # key=value
) -> TomlTable:
    """A preset's tables over those that it extends, with overrides."""
    tables: TomlTable = {}
    for layer in preset_layers(name):
        _lay_over(tables, layer.tables)
    for override in overrides:
        _lay_over(tables, _parse_override(override))
    return tables


def leaves(
    table: Mapping[str, Any],
    prefix: str = "",  # of the keys
) -> TomlTable:
    """Dotted key -> value; an empty table is a value."""
    values: TomlTable = {}
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            values |= leaves(value, f"{key}.")
        else:
            values[key] = value
    return values


def _lay_over(base: TomlTable, top: TomlTable) -> None:
    """Lay ``top`` over ``base``, in place. ``name = false`` takes an inherited table away, out of
    the order too.
    """
    for key, value in top.items():
        inherited = base.get(key)
        if value is False and isinstance(inherited, dict):
            del base[key]
            if key in base.get("order", []):
                order = base["order"]
                base["order"] = [label for label in order if label != key]
        elif isinstance(value, dict) and isinstance(inherited, dict):
            _lay_over(inherited, value)
        else:
            base[key] = value


def _parse_override(text: str) -> TomlTable:
    """``train.batch_size=32`` -> {"train": {"batch_size": 32}}; a value that is not TOML is a
    string.
    """
    key, sign, value = text.partition("=")
    key = key.strip()
    if not sign or not _DOTTED_KEY.fullmatch(key):
        problem = f"--set {text}: not of the form key=value"
        remedy = "write, for example, --set train.batch_size=32"
        raise UserError(problem, remedy, code="not-key-value")
    try:
        parsed: Any = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    for name in reversed(key.split(".")):
        parsed = {name: parsed}
    return parsed  # type: ignore[no-any-return]


def names_backbone(name: str) -> bool:
    """Whether a preset names the model that it is for: the table of a size, or a user's file.

    The shipped methods themselves have isotrope/tiny as a stand-in.
    """
    for layer in preset_layers(name):
        is_own_file = layer.name.endswith(".toml")
        is_size = layer.size is not None
        encoder = layer.tables.get("encoder", {})
        if (is_own_file or is_size) and "backbone" in encoder:
            return True
    return False
