"""``isotrope presets``: the methods, as data."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

app = typer.Typer(no_args_is_help=True, help="The methods, as data: list them, show one, compare two.")
console = Console()


@app.command("list")
def presets_list() -> None:
    """Every preset, a line each."""
    from isotrope.objective.preset import preset_names, read_preset

    shown = Table("preset", "what it is", box=None)
    for name in preset_names():
        shown.add_row(name, read_preset(name).description)
    console.print(shown)


@app.command("show")
def presets_show(name: str, set_: Annotated[list[str] | None, typer.Option("--set")] = None) -> None:
    """A preset's resolved settings, each with its source."""
    from isotrope.objective.sources import annotated

    console.print(annotated(name, set_ or []), highlight=False, markup=False, soft_wrap=True)


@app.command("diff")
def presets_diff(first: str, second: str) -> None:
    """What differs between two presets."""
    from isotrope.objective.preset import read_preset
    from isotrope.objective.sources import flat

    left, right = (flat(read_preset(name)) for name in (first, second))
    shown = Table(*(Column(name, overflow="fold") for name in ("key", first, second)), box=None)
    for key in sorted(left.keys() | right.keys()):
        if left.get(key) != right.get(key):
            shown.add_row(key, *(json.dumps(side[key]) if key in side else "" for side in (left, right)))
    console.print(shown)
