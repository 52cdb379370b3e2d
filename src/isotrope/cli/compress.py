"""``isotrope compress``: a large model and text in, a small model that follows it out."""

from __future__ import annotations

from typing import Annotated

import typer

from isotrope.console.plain import plain_console


def compress(
    teacher: Annotated[str, typer.Argument(help="The large model: folder, hub name, or isotrope/minilm.")],
    corpus: Annotated[
        list[str], typer.Argument(metavar="TEXT...", help="Files or folders of .txt, .md, .html, .jsonl, .csv, …")
    ],
    student: Annotated[
        str,
        typer.Option(
            help="tiny (isotrope/tiny), layers:3 (some of the teacher's), layers:2,vocabulary:16000,inner:768 "
            "(smaller still), static (one vector a token), or a model."
        ),
    ],
    output: Annotated[str, typer.Option(help="Folder for the run; the student is in its model/.")],
    preset: Annotated[str, typer.Option(help="Method: a preset with a teacher, or a .toml file.")] = "distil",
    dev: Annotated[
        list[str] | None,
        typer.Option(help="What chooses the checkpoint: a file of pairs, stsb, sickr, none; default: as train."),
    ] = None,
    test: Annotated[
        str | None, typer.Option(help="Labelled pairs that judge too: sts, stsb, none; default: as train.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="The data folder; it holds senteval/.", envvar="ISOTROPE_DATA")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of all random numbers.")] = 0,
    sentences: Annotated[
        int | None, typer.Option(min=2, help="Train on a random sample of so many texts; default: all.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="key=value: change a setting of the preset; again for more.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="In tables: the column of the texts; default: text.")] = None,
    title: Annotated[str | None, typer.Option(help="In tables of documents: the column of the titles.")] = None,
    split: Annotated[
        str | None, typer.Option(help="sentences: train on each sentence of a text; sentences:de for German.")
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin anew; otherwise the same command goes on where it stopped.")
    ] = False,
) -> None:
    """Make a small fast model that follows a large one, on your own text, without labels.

    The student is compared with its teacher and with itself before training: points kept, speed, size.
    """
    from isotrope.cli.train import show_report
    from isotrope.compression.compress import compress as run
    from isotrope.compression.page import compression_tables, kept_line
    from isotrope.report.tables import print_table

    console = plain_console()
    found = run(
        teacher, corpus, student=student, output=output, preset=preset, dev=dev, test=test, data=data, seed=seed,
        sentences=sentences, overrides=set_ or [], column=text, title=title, split=split, restart=restart,
        console=plain_console(stderr=True),
    )  # fmt: skip
    record = found.record["compression"]
    for table in compression_tables(record):
        print_table(table, console)
    console.print(f"the student {kept_line(record)}")
    console.print(f"verdict: {record['verdict']}; {record['advice']}")
    console.print(f"model: {found.folder / 'model'}")
    show_report(found.folder)
