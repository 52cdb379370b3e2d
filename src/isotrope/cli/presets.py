"""``isotrope presets``: the methods that ship."""

import json

from typer import Typer

from isotrope.cli.options import command
from isotrope.cli.show import console
from isotrope.report.tables import Table, print_table

presets = Typer(no_args_is_help=True, help="Show the methods: list them, show one, compare two.")
FIRST = (
    "simcse", "whitenedcse", "dclr", "rankcse-listnet", "rankcse-listmle", "all-three", "adapt",
    "crops", "title-body", "distil",
)  # fmt: skip
MODELS_OF_PAPERS = ("bert-base", "bert-large", "roberta-")


@presets.command("list")
@command
def list_presets() -> None:
    """List the presets, one line each: first those that most users need, last the papers' own
    settings.
    """
    from isotrope.preset.tables import preset_descriptions

    descriptions = preset_descriptions()
    published = [name for name in descriptions if any(model in name for model in MODELS_OF_PAPERS)]
    others = [name for name in descriptions if name not in (*FIRST, *published)]
    groups = {
        "to begin with": FIRST,
        "other methods": others,
        "on the papers' models, as published": published,
    }
    for title, names in groups.items():
        rows = [(name, descriptions[name]) for name in names]
        print_table(Table(title, ("preset", "what it is"), rows, words=2), console)


@presets.command("show")
@command
def show_preset(
    name: str,
    *,
    overrides: list[str] | None = None,
) -> None:
    """Show all settings of a preset, each with its source."""
    from isotrope.preset.sources import annotated

    console.print(annotated(name, overrides or ()))


@presets.command("diff")
@command
def compare_presets(
    first: str,
    second: str,
) -> None:
    """Show the settings that differ between two presets.

    Args:
        first: A name from `isotrope presets list`, or a .toml file.
        second: The same.
    """
    from isotrope.preset.preset import read_preset
    from isotrope.preset.sources import flat

    left, right = (flat(read_preset(name)) for name in (first, second))
    rows = []
    for key in sorted({*left, *right}):
        cells = [json.dumps(side[key]) if key in side else "" for side in (left, right)]
        if cells[0] != cells[1]:
            rows.append((key, *cells))
    if rows:
        print_table(Table(f"{first} and {second}", ("key", first, second), rows, words=3), console)
    else:
        console.print("nothing differs")
