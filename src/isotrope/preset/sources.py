"""Presets for a person to read: flat, resolved, and with the source of every value."""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from isotrope.preset.preset import Preset, preset_names, read_preset
from isotrope.preset.tables import TomlTable


def cited_sources(name: str) -> dict[str, str]:
    """Dotted key -> where a shipped preset's value comes from: the comment behind it."""
    path = files("isotrope.presets").joinpath(f"{name}.toml")
    text = path.read_text(encoding="utf-8")
    parent = tomllib.loads(text).get("extends")
    found = cited_sources(parent) if parent else {}
    table = ""
    for line in text.splitlines():
        if match := re.fullmatch(r"\[([\w.-]+)\]\s*(?:#\s*(.*))?", line):
            table = match[1]
            if match[2]:
                found[table] = match[2]
        elif match := re.fullmatch(r"([\w-]+)\s*=\s*[^#]*?(?:#\s*(.*))?", line):
            found[f"{table}.{match[1]}".strip(".")] = match[2] or ""
    return found


def flat(preset: Preset) -> TomlTable:
    """Dotted key -> value, of everything that the preset sets."""

    def walk(table: TomlTable, prefix: str) -> Iterable[tuple[str, Any]]:
        for key, value in table.items():
            if isinstance(value, Mapping):
                yield from walk(dict(value), f"{prefix}{key}.") if value else [(f"{prefix}{key}", {})]
            else:
                yield f"{prefix}{key}", value

    return dict(walk(preset.model_dump(exclude_none=True, exclude={"name", "description"}), ""))


def sourced(preset: Preset, name: str) -> list[tuple[str, str, str]]:
    """Rows (key, value, source) of a resolved preset.

    The source is the paper's section, "isotrope's default", or "set for this run".

    Args:
        preset: the resolved one.
        name: of the preset that it came from. For one that is not shipped, every value is "set for this run".
    """
    shipped = name in preset_names()
    usual = flat(read_preset(name)) if shipped else {}
    cited = cited_sources(name) if shipped else {}
    return [
        (key, "" if value == {} else json.dumps(value, ensure_ascii=False),
         (cited.get(key) or "isotrope's default") if key in usual and usual[key] == value else "set for this run")
        for key, value in flat(preset).items()
        if value != {} or "." in key
    ]  # fmt: skip


def annotated(name: str, overrides: Sequence[str] = ()) -> str:
    """The resolved preset as TOML, every line with its source: a paper's section, an override, or our default."""
    preset = read_preset(name, overrides)
    cited = {} if name.endswith(".toml") else cited_sources(name)
    changed = {override.partition("=")[0].strip() for override in overrides}
    lines, table = [], ""
    for line in preset.toml().splitlines():
        if line.startswith("["):
            key = table = line.strip("[]")
        else:
            key = f"{table}.{line.partition(' =')[0]}".strip(".")
        source = "--set" if key in changed else cited.get(key) or ("default" if " = " in line and table else "")
        source = source if line else ""
        lines.append(f"{line:<35} # {source}" if source else line)
    return "\n".join(lines)
