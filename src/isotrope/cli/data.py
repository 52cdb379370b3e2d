"""``isotrope data``: the data sets that the evaluation reads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from typer import Typer

from isotrope.cli.options import command
from isotrope.cli.show import console
from isotrope.console.plain import plain_console
from isotrope.errors import UserError
from isotrope.report.tables import Table, print_table

if TYPE_CHECKING:
    from isotrope.benchmark_data.sources import Finding

data = Typer(no_args_is_help=True, help="Get the evaluation's data: list, fetch, check, prepare.")


@data.command("list")
@command
def list_data(
    *,
    only: str | None = None,
    addresses: bool = False,
) -> None:
    """List all data sets, or some with --only.

    Each has its rows, its size in megabytes, its licence, and how a download is verified.

    Args:
        addresses: Show where every file comes from.
    """
    from isotrope.benchmark_data.sources import choose

    sources = choose(_names(only) or ["all"])
    header = ["name", "group", "what", "rows", "licence", "verified by", "MB"]
    rows = []
    for source in sources:
        size = f"{source.size / 1e6:.1f}" if source.size else "?"
        described = [source.title, source.rows, source.licence, source.verified]
        rows.append([source.name, source.group, *described, size])
    print_table(Table("data sets", header, rows, words=6), console)
    if addresses:
        for source in sources:
            for address in (source.home, *source.archives, *map(source.url, source.files)):
                console.print(f"{source.name}: {address}")


@data.command("fetch")
@command
def fetch(
    folder: str,
    *,
    only: str | None = None,
    mirror: str | None = None,
    official: bool = False,
) -> None:
    """Download data sets, and verify each file.

    Without --only, it downloads all but the training corpus. Files that are there already are left.

    Args:
        mirror: Address of a copy of the data folder, to download from.
        official: Download the makers' own archives, where there are any.
    """
    from isotrope.benchmark_data.fetch import fetch_data
    from isotrope.console.progress import progress

    _check_named(folder)
    with progress("downloaded", None, plain_console(stderr=True), unit="bytes") as bar:
        sources = fetch_data(folder, _names(only), mirror, official, console.print, bar)
    if any(source.recipe for source in sources):
        console.print(f"next: isotrope data prepare {folder}")


@data.command("check")
@command
def check(
    folder: str,
    *,
    only: str | None = None,
) -> None:
    """Say which files are missing or wrong, and what to do.

    The exit code is 2 if a file is missing or wrong.
    """
    from isotrope.benchmark_data.sources import check_data

    _check_named(folder)
    findings: list[Finding] = []
    for checked in check_data(folder, _names(only)):
        is_there = any(finding.kind != "missing" for finding in checked.findings)
        note = f"; {checked.source.note}" if checked.source.note and is_there else ""
        console.print(f"{checked.source.name}: {checked.state} ({checked.source.rows}){note}")
        findings += checked.findings
    if findings:
        _refuse_wrong_files(folder, findings)


def _refuse_wrong_files(folder: str, findings: "Sequence[Finding]") -> None:
    rows = [[finding.path, finding.kind, finding.detail, finding.remedy] for finding in findings]
    header = ["file", "is", "in full", "remedy"]
    print_table(Table(f"findings in {folder}", header, rows, words=4), console)
    first = findings[0]
    others = f", and {len(findings) - 1} more" if len(findings) > 1 else ""
    is_one_remedy = len({finding.remedy for finding in findings}) == 1
    problem = f"{first.path} in {folder} is {first.kind} ({first.detail}){others}"
    remedy = first.remedy if is_one_remedy else "do what the table says"
    raise UserError(problem, remedy, code="wrong-data")


@data.command("prepare")
@command
def prepare(
    folder: str,
    *,
    output: str | None = None,
    only: str | None = None,
) -> None:
    """Make senteval/ from the official files of STS and SICK.

    The texts are then as SentEval has them. ISOTROPE_DATA may point to the folder.

    Args:
        output: Where senteval/ is written; default: the data folder.
    """
    from isotrope.benchmark_data.prepare import prepare_data

    _check_named(folder)
    prepare_data(folder, output, _names(only), console.print)
    console.print(f"point to it: export ISOTROPE_DATA={output or folder}")


def _names(only: str | None) -> list[str]:
    return only.split(",") if only else []


def _check_named(folder: str) -> None:
    """Refuse the empty name, which the shell gives for "$DATA" if DATA is not set."""
    if not folder:
        raise UserError(
            "no data folder given", "name one, or set ISOTROPE_DATA", code="no-data-folder"
        )
