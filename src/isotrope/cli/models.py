"""The commands that show the result of the function of their name: a model and its verdict,
vectors, a page.
"""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from isotrope.cli.options import Word, command, named, sources
from isotrope.console.plain import plain_console
from isotrope.report.tables import Table, print_table

if TYPE_CHECKING:
    from isotrope.report.outcome import Outcome

console = plain_console()


@command(
    "isotrope.quickstart.run:quickstart",
    hidden=("model", "plan", "collection"),
    output=Word("Folder for the documents, the new model and the report."),
)
def quickstart(found: "Outcome") -> None:
    """Make a raw model better for 3,600 pages about commands, without labels, and judge it by
    questions.

    The pages ship with isotrope. Nothing is downloaded.
    """
    from isotrope.quickstart.run import advice, quickstart_tables

    minutes, seconds = divmod(round(found.record["seconds"]), 60)
    told = f"verdict: {found.verdict.word}: {found.verdict.evidence}", advice(found.record)
    lines = [*(fill(line, 100) for line in told), f"took {minutes} min {seconds} s"]
    _show(found, quickstart_tables(found.record), *lines)
    console.print("your own model and your own documents:")
    console.print("  isotrope improve YOUR-MODEL YOUR-DOCUMENTS --output better")
    console.print("  isotrope encode better/model YOUR-DOCUMENTS --output index")


@command(
    "isotrope.improvement.improve:improve",
    minutes=Word("Time for the whole command; default: 20.", low=0.1),
    others=Word(
        "Another model to begin with; again for more. The best for the documents is improved.",
        "or",
        many=True,
    ),
    teachers=Word(
        "A larger model or cross-encoder that may teach rankings; again for more.",
        "teacher",
        many=True,
    ),
    query_model=Word("A language model that writes questions for the documents.", "query-model"),
    plan=Word(
        "Folder of an earlier improvement: do the same work, whatever time it takes.", many=False
    ),
)
def improve(found: "Outcome") -> None:
    """Make a model better for your documents, without labels, or find that it is best to keep it.

    Some documents are held out. Tasks made from them judge poolings, post steps and trainings on
    the others.
    """
    from isotrope.improvement.page import advised, candidates_table, general_lines, teachers_line

    record = found.record
    lines = [*general_lines(record), *teachers_line(record), *advised(record)]
    _show(
        found,
        [candidates_table(record)] if record["table"] else [],
        f"verdict: {found.verdict}",
        *lines,
    )


@command(
    "isotrope.improvement.whiten:whiten",
    sentences=Word("Fit on a random sample of so many texts.", low=2),
)
def whiten(found: "Outcome") -> None:
    """Whiten a model, and say whether it got better.

    Whitening spreads the vectors more evenly. It becomes the last layer of the model.
    """
    from isotrope.improvement.whiten import fitted_line
    from isotrope.report.comparison import before_after, of_run, with_average

    record = found.record
    console.print(fitted_line(record))
    tables = [of_run(record["pairs"])] if record["pairs"] else []
    if record["self_made"]:
        used = record["held_out"]["used"]
        title = f"{record['measure']} on tasks made from {used:,} texts that the fit has not seen"
        tables = [before_after(title, with_average(record["self_made"])), *tables]
    _show(found, tables, f"verdict: {found.verdict}")


@command(
    "isotrope.compression.compress:compress",
    model=Word("The large model: folder, hub name, or isotrope/minilm."),
    student=Word(
        "tiny (isotrope/tiny), layers:3 (some of the teacher's), layers:2,vocabulary:27000,inner:768,embeddings:256 "
        "(smaller still), static (one vector a token), vocabulary:30000 (only fewer tokens, no training), or a model."
    ),
    side=Word(
        "query: the student reads queries only, and documents keep the teacher's vectors; default: both."
    ),
    preset=Word("Method: a preset with a teacher, or a .toml file; default: distil."),
    minutes=Word(
        "Then improve the student for so long; its teacher also teaches it rankings.", low=0.1
    ),
)
def compress(found: "Outcome") -> None:
    """Make a small fast model that follows a large one, on your own text, without labels.

    The student is compared with its teacher and with itself before training: points kept, speed,
    size.
    """
    from isotrope.compression.page import compression_tables
    from isotrope.compression.vocabulary import cut_table

    own = found.record.get("compression")
    _show(
        found,
        compression_tables(own) if own else [cut_table(found.record)],
        f"verdict: {found.verdict}",
    )


def _teachers(given: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in named(
        "--teacher", given, "NAME=MODEL", "write, for example, --teacher guide=RUN/model"
    ):
        found.setdefault(name, []).append(value)
    return found


@command(
    "isotrope.training.train:train",
    several=True,
    model=Word("Model to begin with: folder, hub name, isotrope/small; default: the preset's."),
    teachers=Word(
        "NAME=MODEL: the model of the preset's teacher NAME; again for more.",
        "teacher",
        True,
        read=_teachers,
    ),
    negatives=Word("In tables: a column of hard negatives; again for more.", "negative", many=True),
)
def train(run: "Outcome") -> None:
    """Train a model on text without labels, and judge it."""
    if not run.record:  # of several processes the first speaks
        return
    from isotrope.report.comparison import of_run

    tables = [of_run(run.record["comparison"])] if "comparison" in run.record else []
    _show(run, tables, f"verdict: {run.verdict}")


@command(
    "isotrope.compression.page:write_student_report",
    run=Word("A run's folder, finished or not."),
    output=Word("The page, .html; default: report.html in the run."),
)
def report(page: Path) -> None:
    """Show a run on one page.

    It has the verdict, the curves, and the vectors before and after. The figures are also written
    as .svg and .png.
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


def _show(found: "Outcome", tables: Sequence[Table], *lines: str) -> None:
    """Tables and lines, then where the model and its report are. The report of a run is drawn now."""
    from isotrope.report.outcome import REPORT
    from isotrope.report.page import MODEL
    from isotrope.report.saving import roles_line
    from isotrope.training.train import Run

    for table in tables:
        print_table(table, console)
    for line in lines:
        console.print(line)
    console.print(
        f"model: {found.folder / MODEL}{' (with its training head)' if 'head' in found.record else ''}"
    )
    if line := roles_line(found.folder / MODEL):
        console.print(line)
    if isinstance(found, Run):
        show_report(found.folder)
    else:
        console.print(f"report: {found.folder / REPORT}")


@command(
    "isotrope.encoding.encode:encode",
    hidden=("shard", "normalize", "device", "progress"),
    model=Word("The model: a folder or a hub name, such as isotrope/small."),
    texts=Word(
        "Files, folders or URLs of text; each row gives one vector.", many=True, read=sources
    ),
    output=Word("OUT.npy, OUT.parquet, or a folder or URL for Parquet files.", required=True),
    batch_size=Word("Texts at a time, at most; fewer where they are long.", low=1),
    keep=Word("Columns to write beside the vectors, such as id,title.", many=False),
    engine=Word("one process, several processes, or ray (needs isotrope[ray])."),
    workers=Word("Workers of processes or ray; default: one a core.", low=1),
    address=Word("Of a Ray cluster; default: Ray on this machine."),
    dtype=Word("float32, bf16 (for CPUs that have it), or auto: the faster one that is as good."),
)
def encode(written: Path | str) -> None:
    """Turn text of any size into vectors.

    The memory does not grow with the text. After a stop, the same command goes on.
    """
    from isotrope.encoding.output import beside

    kept = beside(Path(written))
    columns = (
        f", the kept columns to {kept}" if str(written).endswith(".npy") and kept.exists() else ""
    )
    console.print(f"written to {written}{columns}")


@command(
    "isotrope.training.onnx:export_onnx",
    output=Word("A new folder.", required=True),
    int8=Word("Also write a graph with int8 weights: smaller, less exact."),
    role=Word("query or document, for a model that reads them by two routes."),
)
def export(folder: Path) -> None:
    """Write a model as an ONNX graph, for use without torch.

    The graph is compared with torch before it is kept.
    """
    console.print(f"written to {folder}; {folder}/README.md shows how to use it")
