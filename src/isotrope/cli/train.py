"""``isotrope train``: plain sentences in, a better model out, and whether it is better."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from isotrope.console.plain import plain_console
from isotrope.errors import UserError

console = plain_console()


def train(
    corpus: Annotated[
        list[str], typer.Argument(help="Files, folders or URLs of .txt, .md, .html, .jsonl, .csv, .tsv, .parquet.")
    ],
    output: Annotated[str, typer.Option(help="Folder for the run; the new model is in its model/.")],
    preset: Annotated[
        str, typer.Option(help="Method: a name from `isotrope presets list`, or a .toml file.")
    ] = "simcse",
    backbone: Annotated[
        str | None, typer.Option(help="Model to begin with: folder, hub name, isotrope/small; default: the preset's.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Words before every text, such as 'query: '; default: the model's prompt.")
    ] = None,
    prompt_name: Annotated[str | None, typer.Option(help="One of the model's own prompts, by its name.")] = None,
    positive_prompt: Annotated[
        str | None, typer.Option(help="Words before positives and negatives; default: as --prompt.")
    ] = None,
    teacher: Annotated[
        list[str] | None, typer.Option(help="NAME=MODEL: the model for the preset's teacher NAME; again for more.")
    ] = None,
    dev: Annotated[
        list[str] | None,
        typer.Option(
            help="What chooses the checkpoint: a .tsv or .csv file of pairs, stsb, sickr, transfer-dev (slow), none; "
            "default: the preset's if the data folder is known, else none."
        ),
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(
            help="Labelled pairs that judge: sts (seven sets), stsb, none; "
            "default: sts if the data folder is known, else half of the file of --dev."
        ),
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
    text: Annotated[
        str | None, typer.Option(help="In tables: the column of the texts; default: the only one, or text.")
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="In tables of documents: the column of the titles; default: title, if any.")
    ] = None,
    held_out: Annotated[int, typer.Option(min=0, help="Documents to leave out of training, drawn by the seed.")] = 0,
    positive: Annotated[str | None, typer.Option(help="In tables: the column of the positives.")] = None,
    negative: Annotated[
        list[str] | None, typer.Option(help="In tables: a column of hard negatives; again for more.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="sentences: train on each sentence of a text; sentences:de for German.")
    ] = None,
    keep_duplicates: Annotated[
        bool, typer.Option("--keep-duplicates", help="Train on every line, also on one that occurred before.")
    ] = False,
    log_to: Annotated[list[str] | None, typer.Option(help="Log to tensorboard, wandb, …, too; again for more.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
) -> None:
    """Train a model on text without labels, and judge it."""
    settings: dict[str, Any] = {
        "corpus": corpus, "output": output, "preset": preset, "backbone": backbone, "dev": dev, "test": test,
        "prompt": prompt, "prompt_name": prompt_name, "positive_prompt": positive_prompt,
        "teachers": _pairs_of("--teacher", teacher or []), "data": data, "seed": seed, "sentences": sentences,
        "overrides": set_ or [], "text": text, "title": title, "held_out": held_out,
        "positive": positive, "negatives": negative or [], "split": split, "keep_duplicates": keep_duplicates,
        "log_to": log_to or [], "resume": resume,
    }  # fmt: skip
    from isotrope.training.processes import leave
    from isotrope.training.settings import RunSettings
    from isotrope.training.train import run_training

    failed = True
    try:
        finished = run_training(RunSettings(**settings))
        failed = False
    finally:
        leave(failed=failed)
    if finished.result:
        _tell(finished.folder, finished.result)
        show_report(finished.folder)


def _pairs_of(option: str, given: list[str]) -> dict[str, list[str]]:
    """NAME=VALUE, several times -> name -> values."""
    found: dict[str, list[str]] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not (name and sign and value):
            raise UserError(
                f"{option} {text}: not of the form NAME=MODEL", f"write, for example, {option} guide=RUN/model"
            )
        found.setdefault(name, []).append(value)
    return found


def _tell(folder: Path, result: Mapping[str, Any]) -> None:
    """Before → after, the verdict, where things lie."""
    from isotrope.report.comparison import of_run
    from isotrope.report.tables import print_table

    if "comparison" in result:
        print_table(of_run(result["comparison"]), console)
    console.print(f"verdict: {result['verdict']}; {result['advice']}")
    console.print(f"model: {folder / 'model'}{' (with its training head)' if 'head' in result else ''}")


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
