"""Presets for a person to read: flat, resolved, and with the source of every value."""

import json
import re
from collections.abc import Iterator, Sequence
from importlib.resources import files

from isotrope.preset.preset import Preset, preset_names, read_preset
from isotrope.preset.tables import SHIPPED, SIZES, Layer, TomlTable, leaves, preset_layers

DEFAULT = "isotrope's default"
OWN_SETTING = "set for this run"

_HEADER = re.compile(r"\[([\w.-]+)\]\s*(?:#\s*(.*))?")
_SETTING = re.compile(r"([\w.-]+)\s*=\s*[^#]*?(?:#\s*(.*))?")


def cited_sources(name: str) -> dict[str, str]:
    """Dotted key -> where a preset's value comes from: the comment after it, or else the name of
    the user's file.
    """
    sources: dict[str, str] = {}
    for layer in preset_layers(name):
        if layer.path.parent == files(SHIPPED["preset"]):
            sources |= _comments(layer)
        else:
            sources |= dict.fromkeys(leaves(layer.tables), layer.path.name)
    return sources


def _comments(layer: Layer) -> dict[str, str]:
    """Dotted key -> the comment on its line, of a shipped preset; of a table, the one on its header
    if there is one.
    """
    comments = {}
    table = ""
    text = layer.path.read_text(encoding="utf-8")
    for line in text.splitlines():
        header = _HEADER.fullmatch(line)
        setting = _SETTING.fullmatch(line)
        if header:
            table = header[1]
            if header[2] and layer.size is None:
                comments[table] = header[2]
        elif setting:
            key = _key_in_layer(layer, table, setting[1])
            if key is not None:
                comments[key] = setting[2] or ""
    return comments


def _key_in_layer(layer: Layer, table: str, name: str) -> str | None:
    """The dotted key of a setting within its layer; None if it is in another layer's table."""
    if layer.size is not None:
        return name if table == f"{SIZES}.{layer.size}" else None
    if table.startswith(f"{SIZES}."):
        return None
    return f"{table}.{name}".strip(".")


def flat(preset: Preset) -> TomlTable:
    """Dotted key -> value, of everything that the preset sets."""
    return leaves(preset.model_dump(exclude_none=True, exclude={"name", "description"}))


def sourced(preset: Preset, name: str) -> Iterator[tuple[str, str, str]]:
    """Rows (key, value, source) of a resolved preset that came from the one called ``name``.

    The source is the paper's section, "isotrope's default", or "set for this run", as all of a
    preset that is not shipped.
    """
    shipped: TomlTable = {}
    comments: dict[str, str] = {}
    if name in preset_names():
        shipped = flat(read_preset(name))
        comments = cited_sources(name)
    for key, value in flat(preset).items():
        is_empty_table = value == {}
        if is_empty_table and "." not in key:  # a stage without components
            continue
        written = "" if is_empty_table else json.dumps(value, ensure_ascii=False)
        source = OWN_SETTING
        if key in shipped and shipped[key] == value:
            source = comments.get(key) or DEFAULT
        yield key, written, source


def annotated(name: str, overrides: Sequence[str] = ()) -> str:
    """The resolved preset as TOML, every line with its source: a paper's section, a file, an
    override, our default.
    """
    sources = cited_sources(name)
    for override in overrides:
        key = override.partition("=")[0].strip()
        sources[key] = "--set"

    lines = []
    table = ""
    for line in read_preset(name, overrides).toml().splitlines():
        if line.startswith("["):
            table = line.strip("[]").replace('"', "")
            source = sources.get(table, "")
        else:
            key = f"{table}.{line.partition(' =')[0]}".strip(".")
            is_setting = " = " in line and table != ""
            source = sources.get(key) or ("default" if is_setting else "")
        if line and source:
            line = f"{line:<35} # {source}"
        lines.append(line)
    return "\n".join(lines)
