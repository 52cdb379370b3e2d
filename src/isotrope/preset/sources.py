"""Presets for a person to read: flat, resolved, and with the source of every value."""

import json
from collections.abc import Iterator, Sequence
from importlib.resources import files

from isotrope.preset.preset import Preset, preset_names, read_preset
from isotrope.preset.tables import SHIPPED, SIZES, Layer, TomlTable, leaves, preset_layers

DEFAULT = "isotrope's default"
OWN_SETTING = "set for this run"


def cited_sources(name: str) -> dict[str, str]:
    """Dotted key -> where a preset's value comes from: the comment after it, or else the name of
    the user's file.
    """
    sources: dict[str, str] = {}
    for layer in preset_layers(name):
        if layer.path.parent == files(SHIPPED["preset"]):
            sources |= _comments(layer)
        else:
            keys = leaves(layer.tables)
            sources |= dict.fromkeys(keys, layer.path.name)
    return sources


def _comments(layer: Layer) -> dict[str, str]:
    """Dotted key -> the comment on its line, of a shipped preset; of a table, the one on its header
    if there is one.
    """
    comments = {}
    table = ""
    for line in layer.path.read_text(encoding="utf-8").splitlines():
        code, _, comment = line.partition("#")
        key, is_setting, _ = code.partition("=")
        if is_setting:
            name = f"{table}.{key.strip()}"
            comments[name.strip(".")] = comment.strip()
        elif code.startswith("["):
            table = code.strip().strip("[]")
            if comment:
                comments[table] = comment.strip()

    of_layer = {}
    prefix = f"{SIZES}.{layer.size}."
    for key, text in comments.items():
        if key.startswith(prefix):
            of_layer[key.removeprefix(prefix)] = text
        elif layer.size is None and not key.startswith(SIZES):
            of_layer[key] = text
    return of_layer


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
        written = ""
        if not is_empty_table:
            written = json.dumps(value, ensure_ascii=False)
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
    preset = read_preset(name, overrides)
    text = preset.toml()
    for line in text.splitlines():
        if line.startswith("["):
            table = line.strip("[]").replace('"', "")
            source = sources.get(table, "")
        else:
            name = line.partition(" =")[0]
            key = f"{table}.{name}".strip(".")
            is_setting = " = " in line and table != ""
            source = sources.get(key) or ""
            if is_setting and not source:
                source = "default"
        if line and source:
            line = f"{line:<35} # {source}"
        lines.append(line)
    return "\n".join(lines)
