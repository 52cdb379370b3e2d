"""``isotrope train``: text in, a better model out, and whether it is better."""

from pathlib import Path
from typing import TYPE_CHECKING

from isotrope.cli.options import command
from isotrope.cli.words import Word
from isotrope.console.plain import plain_console
from isotrope.errors import UserError

if TYPE_CHECKING:
    from isotrope.training.train import Run

console = plain_console()


def teachers(given: list[str]) -> dict[str, list[str]]:
    """NAME=MODEL, several times -> name -> models."""
    found: dict[str, list[str]] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not (name and sign and value):
            problem = f"--teacher {text}: not of the form NAME=MODEL"
            raise UserError(problem, "write, for example, --teacher guide=RUN/model")
        found.setdefault(name, []).append(value)
    return found


@command(
    "isotrope.training.train:train",
    several=True,
    model=Word("Model to begin with: folder, hub name, isotrope/small; default: the preset's."),
    teachers=Word(
        "NAME=MODEL: the model for the preset's teacher NAME; again for more.", "teacher", many=True, read=teachers
    ),
    negatives=Word("In tables: a column of hard negatives; again for more.", "negative", many=True),
)
def train(run: "Run") -> None:
    """Train a model on text without labels, and judge it."""
    if not run.record:  # of several processes the first speaks
        return
    from isotrope.report.comparison import of_run
    from isotrope.report.tables import print_table

    if "comparison" in run.record:
        print_table(of_run(run.record["comparison"]), console)
    console.print(f"verdict: {run.verdict}")
    console.print(f"model: {run.folder / 'model'}{' (with its training head)' if 'head' in run.record else ''}")
    show_report(run.folder)


def show_report(folder: Path) -> None:
    """The page of a finished run, which stands whatever becomes of its page."""
    try:
        from isotrope.compression.page import write_student_report

        with console.status("drawing the report"):
            page = write_student_report(folder)
        console.print(f"report: {page}")
    except Exception as error:
        why = " ".join(str(error).split()) or type(error).__name__
        console.print(f"no report ({why}); the run itself is complete")
