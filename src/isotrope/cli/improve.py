"""``isotrope improve``: a model and documents in, a better model or the advice to keep it out."""

from typing import TYPE_CHECKING

from isotrope.cli.options import command
from isotrope.cli.words import Word
from isotrope.console.plain import plain_console

if TYPE_CHECKING:
    from isotrope.improvement.improve import Improvement


@command(
    "isotrope.improvement.improve:improve",
    minutes=Word("Time for the whole command; default: 20.", low=0.1),
    plan=Word("Folder of an earlier improvement: do the same work, whatever time it takes.", many=False),
)
def improve(found: "Improvement") -> None:
    """Make a model better for your documents, without labels, or find that it is best to keep it.

    Some documents are held out. Tasks made from them judge poolings, post steps and trainings on the others.
    """
    from isotrope.improvement.page import candidates_table, general_lines, hybrid_line, what_to_do
    from isotrope.report.outcome import MODEL, REPORT
    from isotrope.report.tables import print_table

    console = plain_console()
    if found.record["table"]:
        print_table(candidates_table(found.record), console)
    for line in (
        f"verdict: {found.verdict}",
        *general_lines(found.record),
        *hybrid_line(found.record),
        what_to_do(found.record),
    ):
        console.print(line)
    console.print(f"model:  {found.folder / MODEL}")
    console.print(f"report: {found.folder / REPORT}")
