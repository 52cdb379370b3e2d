"""The commands of two words: ``isotrope presets``, and ``isotrope data`` for what the evaluation
reads.
"""

import json
from collections.abc import Sequence

import typer

from isotrope.cli.options import Word, command
from isotrope.console.plain import plain_console
from isotrope.errors import UserError
from isotrope.report.tables import Table, print_table

presets = typer.Typer(
    no_args_is_help=True, help="Show the methods: list them, show one, compare two."
)
data = typer.Typer(
    no_args_is_help=True, help="Get the evaluation's data: list, fetch, check, prepare."
)
console, errors = plain_console(), plain_console(stderr=True)


def _given(folder: str) -> str:
    if not folder:  # "$DATA" where DATA is not set
        raise UserError("no data folder given", "name one, or set ISOTROPE_DATA")
    return folder


FOLDER = Word("The data folder.", variable="ISOTROPE_DATA", read=_given)
ONLY = Word(
    "Data sets or groups (sts, transfer, …), several with commas.",
    many=False,
    read=lambda one: one.split(","),
)
NAME = Word("A name from `isotrope presets list`, or a .toml file.")
FIRST = (
    "simcse", "whitenedcse", "dclr", "rankcse-listnet", "rankcse-listmle", "all-three", "adapt", "crops", "title-body",
    "distil",
)  # fmt: skip


@presets.command("list")
@command(light=True)
def presets_list() -> None:
    """List the presets, one line each: first those that most users need, last the papers' own
    settings.
    """
    from isotrope.preset.tables import preset_descriptions

    known = preset_descriptions()
    published = [
        name
        for name in known
        if any(model in name for model in ("bert-base", "bert-large", "roberta-"))
    ]
    others = [name for name in known if name not in (*FIRST, *published)]
    groups = {
        "to begin with": FIRST,
        "other methods": others,
        "on the papers' models, as published": published,
    }
    for title, names in groups.items():
        rows = [(name, known[name]) for name in names]
        print_table(Table(title, ("preset", "what it is"), rows, words=2), console)


@presets.command("show")
@command(light=True, name=NAME)
def presets_show(name: str, *, overrides: Sequence[str] = ()) -> None:
    """Show all settings of a preset, each with its source."""
    from isotrope.preset.sources import annotated

    console.print(annotated(name, overrides))


@presets.command("diff")
@command(light=True, first=NAME, second=NAME)
def presets_diff(first: str, second: str) -> None:
    """Show the settings that differ between two presets."""
    from isotrope.preset.preset import read_preset
    from isotrope.preset.sources import flat

    sides = [flat(read_preset(name)) for name in (first, second)]
    cells = {
        key: [json.dumps(side[key]) if key in side else "" for side in sides]
        for side in sides
        for key in side
    }
    if rows := [
        (key, left, right) for key, (left, right) in sorted(cells.items()) if left != right
    ]:
        print_table(Table(f"{first} and {second}", ("key", first, second), rows, words=3), console)
    else:
        console.print("nothing differs")


@data.command("list")
@command(light=True, only=ONLY)
def data_list(*, only: Sequence[str] = (), addresses: bool = False) -> None:
    """List all data sets, or some with --only.

    Each has its rows, its size in megabytes, its licence, and how a download is verified.

    Args:
        addresses: Show where every file comes from.
    """
    from isotrope.benchmark_data.sources import choose

    chosen = choose(only or ["all"])
    header = ["name", "group", "what", "rows", "licence", "verified by", "MB"]
    sizes = {one.name: f"{one.size / 1e6:.1f}" if one.size else "?" for one in chosen}
    rows = [
        [one.name, one.group, one.title, one.rows, one.licence, one.verified, sizes[one.name]]
        for one in chosen
    ]
    print_table(Table("data sets", header, rows, words=6), console)
    for source in chosen if addresses else ():
        for line in (source.home, *source.archives, *map(source.url, source.files)):
            console.print(f"{source.name}: {line}")


@data.command("fetch")
@command(light=True, folder=FOLDER, only=ONLY)
def data_fetch(
    folder: str, *, only: Sequence[str] = (), mirror: str | None = None, official: bool = False
) -> None:
    """Download data sets, and verify each file.

    Without --only, it downloads all but the training corpus. Files that are there already are left.

    Args:
        mirror: Address of a copy of the data folder, to download from.
        official: Download the makers' own archives, where there are any.
    """
    from isotrope.benchmark_data.fetch import fetch_data
    from isotrope.console.progress import progress

    with progress("downloaded", None, errors, unit="bytes") as bar:
        fetched = fetch_data(folder, only, mirror, official, console.print, bar)
    if any(source.recipe for source in fetched):
        console.print(f"next: isotrope data prepare {folder}")


@data.command("check")
@command(light=True, folder=FOLDER, only=ONLY)
def data_check(folder: str, *, only: Sequence[str] = ()) -> None:
    """Say which files are missing or wrong, and what to do.

    The exit code is 2 if a file is missing or wrong.
    """
    from isotrope.benchmark_data.sources import check_data

    checked = check_data(folder, only)
    for one in checked:
        there = any(finding.kind != "missing" for finding in one.findings)
        note = f"; {one.source.note}" if one.source.note and there else ""
        console.print(f"{one.source.name}: {one.state} ({one.source.rows}){note}")
    findings = [finding for one in checked for finding in one.findings]
    if not findings:
        return
    rows = [[finding.path, finding.kind, finding.detail, finding.remedy] for finding in findings]
    print_table(
        Table(f"findings in {folder}", ["file", "is", "in full", "remedy"], rows, words=4), console
    )
    first, more = findings[0], f", and {len(findings) - 1} more" if len(findings) > 1 else ""
    remedy = (
        first.remedy if len({one.remedy for one in findings}) == 1 else "do what the table says"
    )
    raise UserError(f"{first.path} in {folder} is {first.kind} ({first.detail}){more}", remedy)


@data.command("prepare")
@command(
    light=True,
    folder=FOLDER,
    only=ONLY,
    output=Word("Where senteval/ is written; default: the data folder."),
)
def data_prepare(folder: str, *, output: str | None = None, only: Sequence[str] = ()) -> None:
    """Make senteval/ from the official files of STS and SICK.

    The texts are then as SentEval has them. ISOTROPE_DATA may point to the folder.
    """
    from isotrope.benchmark_data.prepare import prepare_data

    prepare_data(folder, output, only, console.print)
    console.print(f"point to it: export ISOTROPE_DATA={output or folder}")
