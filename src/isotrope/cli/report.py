"""``isotrope report``: a run on one page."""

from pathlib import Path

from isotrope.cli.options import command
from isotrope.cli.words import Word
from isotrope.console.plain import plain_console


@command(
    "isotrope.compression.page:write_student_report",
    run=Word("A run's folder, finished or not."),
    output=Word("The page, .html; default: report.html in the run."),
)
def report(page: Path) -> None:
    """Show a run on one page.

    It has the verdict, the curves, and the vectors before and after. The figures are also written as .svg and .png.
    """
    plain_console().print(f"written to {page}")
