"""The commands that make a model and judge it. Each shows the result of the function of its name."""

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from isotrope.cli.options import command
from isotrope.cli.words import Word
from isotrope.console.plain import plain_console
from isotrope.errors import UserError

if TYPE_CHECKING:
    from isotrope.compression.compress import Compression
    from isotrope.improvement.improve import Improvement
    from isotrope.report.outcome import Outcome
    from isotrope.training.train import Run

console = plain_console()


@command(
    "isotrope.quickstart.run:quickstart",
    hidden=("model", "plan", "collection"),
    output=Word("Folder for the documents, the new model and the report."),
)
def quickstart(found: "Outcome") -> None:
    """Make a raw model better for 3,600 pages about commands, without labels, and judge it by questions.

    The pages ship with isotrope. Nothing is downloaded.
    """
    from isotrope.quickstart.run import advice, quickstart_tables
    from isotrope.report.tables import print_table

    for table in quickstart_tables(found.record):
        print_table(table, console)
    minutes, seconds = divmod(round(found.record["seconds"]), 60)
    for line in (f"verdict: {found.verdict.word}: {found.verdict.evidence}", advice(found.record)):
        console.print(fill(line, 100))
    console.print(f"took {minutes} min {seconds} s")
    _show_folder(found)
    console.print("your own model and your own documents:")
    console.print("  isotrope improve YOUR-MODEL YOUR-DOCUMENTS --output better")
    console.print("  isotrope encode better/model YOUR-DOCUMENTS --output index")


@command(
    "isotrope.improvement.improve:improve",
    minutes=Word("Time for the whole command; default: 20.", low=0.1),
    others=Word(
        "A further model to begin with; again for more. The best for the documents is improved.", "or", many=True
    ),
    teachers=Word(
        "A larger model that may teach rankings; again for more. It is not a candidate.", "teacher", many=True
    ),
    plan=Word("Folder of an earlier improvement: do the same work, whatever time it takes.", many=False),
)
def improve(found: "Improvement") -> None:
    """Make a model better for your documents, without labels, or find that it is best to keep it.

    Some documents are held out. Tasks made from them judge poolings, post steps and trainings on the others.
    """
    from isotrope.improvement.page import candidates_table, general_lines, hybrid_line, teachers_line, what_to_do
    from isotrope.report.tables import print_table

    record = found.record
    if record["table"]:
        print_table(candidates_table(record), console)
    for line in (
        f"verdict: {found.verdict}",
        *general_lines(record),
        *teachers_line(record),
        *hybrid_line(record),
        what_to_do(record),
    ):
        console.print(line)
    _show_folder(found)


@command("isotrope.improvement.whiten:whiten", sentences=Word("Fit on a random sample of so many texts.", low=2))
def whiten(found: "Improvement") -> None:
    """Whiten a model, and say whether it got better.

    Whitening spreads the vectors more evenly. It becomes the last layer of the model.
    """
    from isotrope.improvement.whiten import fitted_line
    from isotrope.report.comparison import before_after, of_run, with_average
    from isotrope.report.tables import print_table

    record = found.record
    console.print(fitted_line(record))
    if self_made := record["self_made"]:
        used = record["held_out"]["used"]
        title = f"{record['measure']} on tasks made from {used:,} texts that the fit has not seen"
        print_table(before_after(title, with_average(self_made)), console)
    if record["pairs"]:
        print_table(of_run(record["pairs"]), console)
    console.print(f"verdict: {found.verdict}")
    _show_folder(found)


@command(
    "isotrope.compression.compress:compress",
    model=Word("The large model: folder, hub name, or isotrope/minilm."),
    student=Word(
        "tiny (isotrope/tiny), layers:3 (some of the teacher's), layers:2,vocabulary:16000,inner:768 (smaller still), "
        "static (one vector a token), or a model."
    ),
    preset=Word("Method: a preset with a teacher, or a .toml file; default: distil."),
)
def compress(found: "Compression") -> None:
    """Make a small fast model that follows a large one, on your own text, without labels.

    The student is compared with its teacher and with itself before training: points kept, speed, size.
    """
    from isotrope.compression.page import compression_tables
    from isotrope.report.tables import print_table

    for table in compression_tables(found.record["compression"]):
        print_table(table, console)
    console.print(f"verdict: {found.verdict}")
    console.print(f"model: {found.folder / 'model'}")
    show_report(found.folder)


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


@command(
    "isotrope.pretraining.run:pretrain",
    hidden=("checkpoint_minutes", "half"),
    size=Word("Size of the model: tiny, mini or small."),
    tokens=Word(
        "How many tokens to train on; default: 60 million (tiny), 500 million (mini), 4 billion (small).", low=1
    ),
    held_out=Word("File to measure the loss on; it is never trained on; again for more.", many=True),
)
def pretrain(model: Path) -> None:
    """Train a small language model from text alone.

    `isotrope train` can begin with it.
    """
    console.print(f"model: {model}")


@command(
    "isotrope.compression.page:write_student_report",
    run=Word("A run's folder, finished or not."),
    output=Word("The page, .html; default: report.html in the run."),
)
def report(page: Path) -> None:
    """Show a run on one page.

    It has the verdict, the curves, and the vectors before and after. The figures are also written as .svg and .png.
    """
    console.print(f"written to {page}")


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


def _show_folder(found: "Outcome") -> None:
    from isotrope.report.outcome import MODEL, REPORT

    console.print(f"model:  {found.folder / MODEL}")
    console.print(f"report: {found.folder / REPORT}")
