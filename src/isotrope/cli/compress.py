"""``isotrope compress``: a large model and text in, a small model that follows it out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isotrope.cli.options import command
from isotrope.cli.train import show_report
from isotrope.cli.words import VOCABULARY, Word
from isotrope.console.plain import plain_console

if TYPE_CHECKING:
    from isotrope.training.train import Run


@command(
    "isotrope.compression.compress:compress",
    teacher=Word("The large model: folder, hub name, or isotrope/minilm."),
    text=VOCABULARY["documents"],
    student=Word(
        "tiny (isotrope/tiny), layers:3 (some of the teacher's), layers:2,vocabulary:16000,inner:768 (smaller still), "
        "static (one vector a token), or a model."
    ),
    preset=Word("Method: a preset with a teacher, or a .toml file; default: distil."),
    test=Word("Labelled pairs that judge too: sts, stsb, none; default: as train.", "labels"),
    column=Word("In tables: the column of the texts; default: the only one, or text.", "text"),
)
def compress(run: Run) -> None:
    """Make a small fast model that follows a large one, on your own text, without labels.

    The student is compared with its teacher and with itself before training: points kept, speed, size.
    """
    from isotrope.compression.page import compression_tables, kept_line
    from isotrope.report.tables import print_table

    console, record = plain_console(), run.record["compression"]
    for table in compression_tables(record):
        print_table(table, console)
    console.print(f"the student {kept_line(record)}")
    console.print(f"verdict: {record['verdict']}; {record['advice']}")
    console.print(f"model: {run.folder / 'model'}")
    show_report(run.folder)
