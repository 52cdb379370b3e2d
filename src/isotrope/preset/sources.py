"""Presets for a person to read: flat, resolved, and with the source of every value."""

import json
import re
from collections.abc import Sequence
from importlib.resources import files

from isotrope.preset.preset import Preset, preset_names, read_preset
from isotrope.preset.tables import SHIPPED, TomlTable, leaves, preset_layers


def cited_sources(name: str) -> dict[str, str]:
    """Dotted key -> where a preset's value comes from: the comment behind it, or else the name of
    the user's file.
    """
    found: dict[str, str] = {}
    for path, tables in preset_layers(name).items():
        if path.parent != files(SHIPPED["preset"]):
            found |= dict.fromkeys(leaves(tables), path.name)
            continue
        table = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            if match := re.fullmatch(r"\[([\w.-]+)\]\s*(?:#\s*(.*))?", line):
                table = match[1]
                if match[2]:
                    found[table] = match[2]
            elif match := re.fullmatch(r"([\w-]+)\s*=\s*[^#]*?(?:#\s*(.*))?", line):
                found[f"{table}.{match[1]}".strip(".")] = match[2] or ""
    return found


def flat(preset: Preset) -> TomlTable:
    """Dotted key -> value, of everything that the preset sets."""
    return leaves(preset.model_dump(exclude_none=True, exclude={"name", "description"}))


def sourced(preset: Preset, name: str) -> list[tuple[str, str, str]]:
    """Rows (key, value, source) of a resolved preset that came from the one called ``name``.

    The source is the paper's section, "isotrope's default", or "set for this run", as all of a
    preset that is not shipped.
    """
    shipped = name in preset_names()
    usual, cited = (flat(read_preset(name)), cited_sources(name)) if shipped else ({}, {})
    return [
        (
            key,
            "" if value == {} else json.dumps(value, ensure_ascii=False),
            (cited.get(key) or "isotrope's default")
            if key in usual and usual[key] == value
            else "set for this run",
        )
        for key, value in flat(preset).items()
        if value != {} or "." in key
    ]


def annotated(name: str, overrides: Sequence[str] = ()) -> str:
    """The resolved preset as TOML, every line with its source: a paper's section, a file, an
    override, our default.
    """
    cited = cited_sources(name) | {
        override.partition("=")[0].strip(): "--set" for override in overrides
    }
    lines, table = [], ""
    for line in read_preset(name, overrides).toml().splitlines():
        if line.startswith("["):
            key = table = line.strip("[]").replace('"', "")
        else:
            key = f"{table}.{line.partition(' =')[0]}".strip(".")
        source = cited.get(key) or ("default" if " = " in line and table else "")
        lines.append(f"{line:<35} # {source}" if line and source else line)
    return "\n".join(lines)
