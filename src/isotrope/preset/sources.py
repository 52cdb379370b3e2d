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
    shipped = files(SHIPPED["preset"])
    for layer in preset_layers(name):
        if layer.path.parent == shipped:
            sources |= _comments(layer)
        else:
            for key in leaves(layer.tables):
                sources[key] = layer.path.name
    return sources


def _comments(layer: Layer) -> dict[str, str]:
    """Dotted key -> the comment on its line, of a shipped preset; of a table, the one on its header
    if there is one.
    """
    comments = {}
    table = ""
    lines = layer.path.read_text(encoding="utf-8").splitlines()
    for line in lines:
        code, _, comment = line.partition("#")
        comment = comment.strip()
        key, is_setting, _ = code.partition("=")
        if is_setting:
            name = f"{table}.{key.strip()}"
            comments[name.strip(".")] = comment
        elif code.startswith("["):
            table = code.strip().strip("[]")
            if comment:
                comments[table] = comment

    # A size has its own table of the file; the file itself has all but the sizes.
    of_layer = {}
    prefix = f"{SIZES}.{layer.size}."
    for key, comment in comments.items():
        if key.startswith(prefix):
            of_size = key.removeprefix(prefix)
            of_layer[of_size] = comment
        elif layer.size is None and not key.startswith(SIZES):
            of_layer[key] = comment
    return of_layer


def flat(preset: Preset) -> TomlTable:
    """Dotted key -> value, of everything that the preset sets."""
    settings = preset.model_dump(exclude_none=True, exclude={"name", "description"})
    return leaves(settings)


def sourced(
    preset: Preset,  # resolved
    name: str,  # of the preset that it came from
) -> Iterator[tuple[str, str, str]]:
    """Rows (key, value, source) of all settings.

    The source is the paper's section, "isotrope's default", or "set for this run", as all of a
    preset that is not shipped.
    """
    shipped: TomlTable = {}
    comments: dict[str, str] = {}
    if name in preset_names():
        shipped = flat(read_preset(name))
        comments = cited_sources(name)
    for key, value in flat(preset).items():
        written = json.dumps(value, ensure_ascii=False)
        if value == {}:
            written = ""
            if "." not in key:  # a stage without components
                continue
        source = OWN_SETTING
        if key in shipped and shipped[key] == value:
            source = comments.get(key) or DEFAULT
        yield key, written, source


def annotated(
    name: str,
    overrides: Sequence[str] = (),  # key=value
) -> str:
    """The resolved preset as TOML, every line with its source: a paper's section, a file, an
    override, our default.
    """
    sources = cited_sources(name)
    for override in overrides:
        key, _, _ = override.partition("=")
        sources[key.strip()] = "--set"

    lines = []
    table = ""
    toml = read_preset(name, overrides).toml()
    for line in toml.splitlines():
        if line.startswith("["):
            table = line.strip("[]").replace('"', "")
            source = sources.get(table, "")
        else:
            setting, _, _ = line.partition(" =")
            key = f"{table}.{setting}".strip(".")
            source = sources.get(key, "")
            is_setting = " = " in line and table != ""
            if is_setting and not source:
                source = "default"
        if line and source:
            line = f"{line:<35} # {source}"
        lines.append(line)
    return "\n".join(lines)
