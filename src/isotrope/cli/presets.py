"""``isotrope presets``: the methods, as data."""

from __future__ import annotations

import json
from collections.abc import Sequence

import typer

from isotrope.cli.options import command
from isotrope.cli.words import Word
from isotrope.console.plain import plain_console

NAME = Word("A name from `isotrope presets list`, or a .toml file.")

app = typer.Typer(no_args_is_help=True, help="Show the methods: list them, show one, compare two.")
console = plain_console()


@app.command("list")
@command(light=True)
def presets_list() -> None:
    """List the presets, one line each."""
    from isotrope.preset.tables import preset_descriptions
    from isotrope.report.tables import Table, print_table

    rows = list(preset_descriptions().items())
    print_table(Table("presets", ("preset", "what it is"), rows, words=2), console)


@app.command("show")
@command(light=True, name=NAME)
def presets_show(name: str, *, overrides: Sequence[str] = ()) -> None:
    """Show all settings of a preset, each with its source."""
    from isotrope.preset.sources import annotated

    console.print(annotated(name, overrides))


@app.command("diff")
@command(light=True, first=NAME, second=NAME)
def presets_diff(first: str, second: str) -> None:
    """Show the settings that differ between two presets."""
    from isotrope.preset.preset import read_preset
    from isotrope.preset.sources import flat
    from isotrope.report.tables import Table, print_table

    left, right = (flat(read_preset(name)) for name in (first, second))
    rows = [
        (key, *(json.dumps(side[key]) if key in side else "" for side in (left, right)))
        for key in sorted(left.keys() | right.keys())
        if left.get(key) != right.get(key)
    ]
    if not rows:
        console.print("nothing differs")
        return
    print_table(Table(f"{first} and {second}", ("key", first, second), rows, words=3), console)
