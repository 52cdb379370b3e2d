"""``isotrope compress``: a large model and text in, a small model that follows it out."""

from typing import TYPE_CHECKING

from isotrope.cli.options import command
from isotrope.cli.train import show_report
from isotrope.cli.words import Word
from isotrope.console.plain import plain_console

if TYPE_CHECKING:
    from isotrope.compression.compress import Compression


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

    console, record = plain_console(), found.record["compression"]
    for table in compression_tables(record):
        print_table(table, console)
    console.print(f"verdict: {found.verdict}")
    console.print(f"model: {found.folder / 'model'}")
    show_report(found.folder)
