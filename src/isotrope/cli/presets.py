"""``isotrope presets``: the methods, as data."""

import json
from collections.abc import Sequence

import typer

from isotrope.cli.options import Word, command
from isotrope.console.plain import plain_console

NAME = Word("A name from `isotrope presets list`, or a .toml file.")

FIRST = (
    "simcse", "whitenedcse", "dclr", "rankcse-listnet", "rankcse-listmle", "all-three", "adapt", "crops", "title-body",
    "distil",
)  # fmt: skip
app = typer.Typer(no_args_is_help=True, help="Show the methods: list them, show one, compare two.")
console = plain_console()


@app.command("list")
@command(light=True)
def presets_list() -> None:
    """List the presets, one line each: first those that most users need, last the papers' own settings."""
    from isotrope.preset.tables import preset_descriptions
    from isotrope.report.tables import Table, print_table

    known = preset_descriptions()
    published = [name for name in known if any(model in name for model in ("bert-base", "bert-large", "roberta-"))]
    others = [name for name in known if name not in (*FIRST, *published)]
    groups = {"to begin with": FIRST, "other methods": others, "on the papers' models, as published": published}
    for title, names in groups.items():
        rows = [(name, known[name]) for name in names]
        print_table(Table(title, ("preset", "what it is"), rows, words=2), console)


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

    sides = [flat(read_preset(name)) for name in (first, second)]
    cells = {key: [json.dumps(side[key]) if key in side else "" for side in sides] for side in sides for key in side}
    if rows := [(key, left, right) for key, (left, right) in sorted(cells.items()) if left != right]:
        print_table(Table(f"{first} and {second}", ("key", first, second), rows, words=3), console)
    else:
        console.print("nothing differs")
