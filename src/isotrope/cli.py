"""The command line: thin over the package's functions.

Exit codes: 0 done, 2 the user's mistake (one line, with the remedy), 130 stopped by Ctrl-C, 1 ours.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from isotrope.cli_data import app as data_app
from isotrope.cli_evaluate import case, evaluate
from isotrope.cli_presets import app as presets_app
from isotrope.cli_study import study
from isotrope.cli_whiten import whiten
from isotrope.errors import Stopped, UserError

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
app.add_typer(presets_app, name="presets")
app.add_typer(data_app, name="data")
app.command()(evaluate)
app.command()(case)
app.command()(study)
app.command()(whiten)
console, errors = Console(), Console(stderr=True)


@app.callback()
def _about() -> None:
    """isotrope: a pile of plain sentences in, a better sentence-embedding model out, and the truth about it."""


@app.command()
def train(
    corpus: Annotated[list[str], typer.Argument(help="Text: files or folders of .txt, .jsonl, .csv, .tsv, .parquet.")],
    output: Annotated[str, typer.Option(help="Folder of the run: model/, result.json, metrics.jsonl.")],
    preset: Annotated[str, typer.Option(help="Method: a name from `isotrope presets list` or a .toml.")] = "simcse",
    backbone: Annotated[str | None, typer.Option(help="Model to begin with: folder, hub name, isotrope/tiny.")] = None,
    teacher: Annotated[
        list[str] | None, typer.Option(help="NAME=MODEL: a teacher of the preset; again for more.")
    ] = None,
    dev: Annotated[list[str] | None, typer.Option(help="Pairs that select: stsb, sickr, a .tsv file, none.")] = None,
    test: Annotated[str | None, typer.Option(help="Pairs that judge: sts (seven sets), stsb, none.")] = None,
    data: Annotated[str | None, typer.Option(help="Folder that holds senteval/.", envvar="ISOTROPE_DATA")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1)] = 0,
    sentences: Annotated[int | None, typer.Option(min=2, help="Train on a random sample of so many.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value over the preset's keys.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of the sentences, in tables.")] = None,
    positive: Annotated[str | None, typer.Option(help="Column of the positives, in tables.")] = None,
    negative: Annotated[list[str] | None, typer.Option(help="Columns of hard negatives, in tables.")] = None,
    log_to: Annotated[list[str] | None, typer.Option(help="Trackers: tensorboard, wandb, …")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a stopped or killed run.")] = False,
) -> None:
    """Turn plain sentences into a better model, and say whether it is better."""
    from isotrope.training.run import train as run

    finished = run(
        corpus,
        output=output,
        preset=preset,
        backbone=backbone,
        teachers=_pairs_of("--teacher", teacher or []),
        dev=dev,
        test=test,
        data=data,
        seed=seed,
        sentences=sentences,
        overrides=set_ or [],
        text=text,
        positive=positive,
        negatives=negative or [],
        log_to=log_to or [],
        resume=resume,
    )
    if finished.result:
        _tell(finished.folder, finished.result)
        _report(finished.folder)


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
    from isotrope.training.verdict import table

    rows = table(result)
    if rows:
        shown = Table("task", "before", "after", "change", title="Spearman × 100 on the same pairs")
        for row in rows:
            shown.add_row(*row)
        console.print(shown)
        c = result["comparison"]
        interval = f"{100 * c['low']:+.2f} … {100 * c['high']:+.2f}, p = {c['p']:.3g}, paired bootstrap"
        console.print(f"change {100 * c['difference']:+.2f} points (95 %: {interval})", highlight=False)
    console.print(f"verdict: {result['verdict']}; {result['advice']}", highlight=False)
    console.print(f"model: {folder / 'model'}", highlight=False, soft_wrap=True)


def _report(folder: Path) -> None:
    """The page of a finished run, which stands whatever becomes of its page."""
    try:
        from isotrope.report import report as write

        with console.status("drawing the report"):
            page = write(folder)
        console.print(f"report: {page}", highlight=False, soft_wrap=True)
    except Exception as error:
        why = " ".join(str(error).split()) or type(error).__name__
        console.print(f"no report ({why}); the run is whole", highlight=False, markup=False, soft_wrap=True)


@app.command()
def report(
    run: Annotated[str, typer.Argument(help="A run's folder, finished or not.")],
    output: Annotated[str | None, typer.Option(help="The page, .html; default: report.html in the run.")] = None,
) -> None:
    """Show a run on one page: verdict, curves, the space before and after; plots beside it as .svg and .png."""
    from isotrope.report import report as write

    console.print(f"written to {write(run, output)}", highlight=False, soft_wrap=True)


@app.command()
def pretrain(
    corpus: Annotated[list[str], typer.Argument(help="Text: files or folders, one sentence a line.")],
    output: Annotated[str, typer.Option(help="Folder of the run: model/, metrics.jsonl, checkpoints/.")],
    size: Annotated[str, typer.Option(help="tiny, mini or small.")] = "tiny",
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1)] = 0,
    tokens: Annotated[int | None, typer.Option(min=1, help="Budget of tokens; default: the size's.")] = None,
    cold_start: Annotated[bool, typer.Option("--cold-start", help="Random embeddings, not word vectors.")] = False,
    held_out: Annotated[list[str] | None, typer.Option(help="Text whose loss is told, never trained on.")] = None,
    compile_: Annotated[bool, typer.Option("--compile", help="torch.compile: faster, needs a compiler.")] = False,
    licence: Annotated[str, typer.Option(help="Of the text, for the model's card.")] = "not stated",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a stopped or killed run.")] = False,
) -> None:
    """Train a small language model from nothing but text: an encoder for `isotrope train` to begin with."""
    from isotrope.pretraining import pretrain as run

    try:
        model = run(
            corpus,
            size=size,
            output=Path(output),
            seed=seed,
            warm_start=not cold_start,
            tokens=tokens,
            held_out=held_out or [],
            compile=compile_,
            licence=licence,
            resume=resume,
            say=lambda line: console.print(line, highlight=False, markup=False, soft_wrap=True),
        )
    except KeyboardInterrupt:
        raise Stopped("stopped") from None
    console.print(f"model: {model}", highlight=False, soft_wrap=True)


@app.command()
def encode(
    model: Annotated[str, typer.Argument(help="Folder, hub name, or isotrope/tiny.")],
    files: Annotated[list[str], typer.Argument(help="Text of any size; a row out for each row in.")],
    output: Annotated[str, typer.Option(help="OUT.npy, OUT.parquet, or a folder of Parquet parts.")],
    text: Annotated[str | None, typer.Option(help="Column of the sentences, in tables.")] = None,
    batch_size: Annotated[int, typer.Option(min=1)] = 64,
    pooling: Annotated[str | None, typer.Option(help="cls, mean, first_last, …; default: the model's.")] = None,
) -> None:
    """Turn text of any size into vectors, in constant memory; run again after a stop to go on."""
    from rich.progress import MofNCompleteColumn

    from isotrope.bulk import encode as run
    from isotrope.cli_progress import counting

    with counting("rows encoded", MofNCompleteColumn(), errors) as move:
        written = run(
            model,
            files,
            output,
            text=text,
            batch_size=batch_size,
            pooling=pooling,
            progress=lambda rows: move(completed=rows),
        )
    console.print(f"written to {written}", highlight=False, soft_wrap=True)


@app.command()
def quickstart(
    output: Annotated[str, typer.Option(help="Folder for the text, the new model and the result.")] = (
        "isotrope-quickstart"
    ),
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1)] = 0,
) -> None:
    """Train isotrope/tiny on text that this machine has already, whiten it, and say whether it became better."""
    from isotrope.quickstart import quickstart as run
    from isotrope.quickstart import tell

    try:
        result = run(output, seed=seed, console=console)
    except Stopped as stopped:
        raise KeyboardInterrupt from stopped  # the same command goes on by itself
    tell(result, Path(output), console)


def main() -> None:
    """Run the command line; every outcome has its exit code."""
    _quiet()
    try:
        if app(prog_name="isotrope", standalone_mode=False) == 130:  # what typer makes of Ctrl-C
            raise KeyboardInterrupt
    except UserError as error:
        _fail(str(error), 2)
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except typer.TyperException as error:
        context, problem = getattr(error, "ctx", None), error.format_message()
        if problem.startswith("Usage: "):  # a command without a word more gets its help
            errors.print(problem, highlight=False, markup=False, soft_wrap=True)
            sys.exit(2)
        _fail(f"{problem.rstrip('.')}: see {context.command_path if context else 'isotrope'} --help", 2)
    except OSError as error:
        if error.errno not in (errno.ENAMETOOLONG, errno.ELOOP):
            raise
        _fail(f"{error.filename!s:.60}… cannot be used ({error.strerror}): choose another name", 2)
    except Stopped as stopped:
        _fail(f"{stopped}; go on with the same command and --resume", 130)
    except (KeyboardInterrupt, typer.Abort):
        _fail("stopped; nothing finished is lost: give the same command again (train: with --resume)", 130)


def _fail(line: str, code: int) -> None:
    errors.print(f"isotrope: {line}", style="bold", highlight=False, markup=False, soft_wrap=True)
    sys.exit(code)


def _quiet() -> None:
    """Other libraries' chatter hides what the user has to read."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")


if __name__ == "__main__":
    main()
