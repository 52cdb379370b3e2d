"""What a command prints of a model that it made."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from isotrope.console.plain import plain_console
from isotrope.report.tables import Table, print_table

if TYPE_CHECKING:
    from isotrope.report.outcome import Outcome

console = plain_console()


def show_outcome(outcome: "Outcome", tables: Sequence[Table], lines: Sequence[str]) -> None:
    """Print tables and lines, then where the model and its report are."""
    from isotrope.report.outcome import REPORT
    from isotrope.report.page import MODEL
    from isotrope.report.saving import roles_line
    from isotrope.training.train import Run

    for table in tables:
        print_table(table, console)
    for line in lines:
        console.print(line)
    head = " (with its training head)" if "head" in outcome.record else ""
    console.print(f"model: {outcome.folder / MODEL}{head}")
    roles = roles_line(outcome.folder / MODEL)
    if roles:
        console.print(roles)
    if isinstance(outcome, Run):
        draw_report(outcome.folder)
    else:
        console.print(f"report: {outcome.folder / REPORT}")


def draw_report(folder: Path) -> None:
    """Draw the page of a finished run. If that fails, the run is complete nevertheless."""
    from isotrope.compression.page import write_student_report

    try:
        with console.status("drawing the report"):
            page = write_student_report(folder)
    except Exception as error:
        why = " ".join(str(error).split()) or type(error).__name__
        console.print(f"no report ({why}); the run itself is complete")
    else:
        console.print(f"report: {page}")
