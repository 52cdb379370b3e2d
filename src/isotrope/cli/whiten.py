"""The command line's `isotrope whiten`."""

from typing import TYPE_CHECKING

from isotrope.cli.options import command
from isotrope.cli.words import Word
from isotrope.console.plain import plain_console

if TYPE_CHECKING:
    from isotrope.improvement.improve import Improvement


@command("isotrope.improvement.whiten:whiten", sentences=Word("Fit on a random sample of so many texts.", low=2))
def whiten(found: "Improvement") -> None:
    """Whiten a model, and say whether it got better.

    Whitening spreads the vectors more evenly. It becomes the last layer of the model.
    """
    from isotrope.improvement.whiten import fitted_line
    from isotrope.report.comparison import before_after, of_run, with_average
    from isotrope.report.outcome import MODEL, REPORT
    from isotrope.report.tables import print_table

    console, record = plain_console(), found.record
    console.print(fitted_line(record))
    if self_made := record["self_made"]:
        used = record["held_out"]["used"]
        title = f"{record['measure']} on tasks made from {used:,} texts that the fit has not seen"
        print_table(before_after(title, with_average(self_made)), console)
    if record["pairs"]:
        print_table(of_run(record["pairs"]), console)
    console.print(f"verdict: {found.verdict}")
    console.print(f"model:  {found.folder / MODEL}")
    console.print(f"report: {found.folder / REPORT}")
