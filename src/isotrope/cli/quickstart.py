"""``isotrope quickstart``: a raw model becomes better for a collection that ships, and questions prove it."""

from typing import TYPE_CHECKING

from isotrope.cli.options import command
from isotrope.cli.words import Word
from isotrope.console.plain import plain_console

if TYPE_CHECKING:
    from isotrope.report.outcome import Outcome


@command(
    "isotrope.quickstart.run:quickstart",
    hidden=("model", "plan", "collection"),
    output=Word("Folder for the documents, the new model and the report."),
)
def quickstart(found: "Outcome") -> None:
    """Make a raw model better for 3,600 pages about commands, without labels, and judge it by questions.

    The pages ship with isotrope. Nothing is downloaded.
    """
    from textwrap import fill

    from isotrope.quickstart.run import advice, quickstart_tables
    from isotrope.report.outcome import MODEL, REPORT
    from isotrope.report.tables import print_table

    console = plain_console()
    for table in quickstart_tables(found.record):
        print_table(table, console)
    minutes, seconds = divmod(round(found.record["seconds"]), 60)
    for line in (f"verdict: {found.verdict.word}: {found.verdict.evidence}", advice(found.record)):
        console.print(fill(line, 100))
    console.print(f"took {minutes} min {seconds} s")
    console.print(f"model:  {found.folder / MODEL}")
    console.print(f"report: {found.folder / REPORT}")
    console.print("your own model and your own documents:")
    console.print("  isotrope improve YOUR-MODEL YOUR-DOCUMENTS --output better")
    console.print("  isotrope encode better/model YOUR-DOCUMENTS --output index")
