"""``isotrope study``: many runs, one table, and what it shows."""

from __future__ import annotations

import sys
import tomllib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isotrope.console.plain import plain_console
from isotrope.errors import Stopped, UserError

if TYPE_CHECKING:
    from isotrope.study.study import Options

console, errors = plain_console(), plain_console(stderr=True)


def study(
    file: Annotated[str, typer.Argument(help="A .toml file, or the name of a study that comes with isotrope.")],
    output: Annotated[str, typer.Option(help="Folder for the runs, the table and the figures.")],
    documents: Annotated[
        list[str] | None, typer.Option(help="File or folder of text, instead of the study's; again for more.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="The data folder; it holds senteval/.", envvar="ISOTROPE_DATA")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model to begin with, in every row.")] = None,
    vectors: Annotated[
        str | None, typer.Option(help="File of word vectors (GloVe, word2vec), for rows with vectors = true.")
    ] = None,
    sentences: Annotated[int | None, typer.Option(min=2, help="Texts of each run; default: the study's.")] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Seeds of each row: 0, 1, 2, …; default: the study's.")
    ] = None,
    dev: Annotated[
        list[str] | None,
        typer.Option(help="What chooses the checkpoint: stsb, sickr, transfer-dev (slow), a .tsv file, none."),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="Labelled pairs that judge: sts, stsb, stsb-dev, dev-half, none.")
    ] = None,
    rows: Annotated[list[str] | None, typer.Option(help="Only this row; several with commas, or again.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="key=value: change a setting, in every row that has the key.")
    ] = None,
    sweep: Annotated[list[str] | None, typer.Option(help="key=value,value: every row with each value.")] = None,
    tuned: Annotated[str | None, typer.Option(help="A search.toml, made by --search: use its best settings.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Runs at the same time; the result is the same.")] = 1,
    threads: Annotated[int | None, typer.Option(min=1, help="Processor threads for each run.")] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin anew: delete what an earlier call left in the folder.")
    ] = False,
    search: Annotated[
        bool, typer.Option("--search", help="Search for the best values of the keys in [search], on the dev pairs.")
    ] = False,
) -> None:
    """Compare methods over several seeds.

    It runs what is left of the study. Then it writes the table, the tests, and the answers to the papers' claims.
    """
    from isotrope.study.study import Options
    from isotrope.study.study import study as run

    options = Options(
        output=output, documents=documents, data=data, model=model, vectors=vectors, sentences=sentences,
        dev=dev, rows=_rows(file, rows or []), overrides=set_ or [], workers=workers, threads=threads, restart=restart,
        console=console,
    )  # fmt: skip
    try:
        if search:
            _search(file, options, {"--seeds": seeds, "--labels": labels, "--sweep": sweep, "--tuned": tuned})
            return
        done = run(file, seeds=seeds, labels=labels, sweep=_sweeps(sweep or []), tuned=tuned, **options)
    except Stopped:
        line = "isotrope: stopped; finished cells are kept, and the same command goes on"
        errors.print(line, style="bold")
        sys.exit(130)
    if not console.is_terminal:
        for page in done.pages:
            console.print(f"written to {page}")
    else:
        from rich.markdown import Markdown

        console.print(Markdown(done.pages[0].read_text(encoding="utf-8")))
    if done.failed:
        problem = f"{len(done.failed)} of {done.record['scale']['cells']} cells are not finished"
        raise UserError(problem, f"see {done.pages[0]}; when that is fixed, the same command runs them")


def _rows(file: str, given: list[str]) -> list[str]:
    """The names given, whole where the study has such a row, else separated by commas."""
    from isotrope.study.rows import expand_rows
    from isotrope.study.spec import read_study

    known = (
        {name for entry in expand_rows(read_study(file)).values() for name in (entry.label, entry.base)}
        if given
        else ()
    )
    return [name.strip() for text in given for name in ([text] if text in known else text.split(","))]


def _search(file: str, options: Options, idle: dict[str, Any]) -> None:
    from isotrope.study.search import search_settings

    for name, value in idle.items():
        if value:
            raise UserError(
                f"{name} has no effect on --search", "leave it out: a search has its own, and no test pairs"
            )
    path = search_settings(file, **options)
    console.print(f"best settings of each row: {path}")


def _sweeps(given: list[str]) -> dict[str, list[Any]]:
    """``key=0.8,0.9`` -> {key: [0.8, 0.9]}; values that are not TOML are names."""
    found: dict[str, list[Any]] = {}
    for text in given:
        key, sign, values = text.partition("=")
        if not (key.strip() and sign and values.strip()):
            raise UserError(f"--sweep {text}: not of the form key=value,value", "write, for example, train.epochs=1,2")
        try:
            found[key.strip()] = tomllib.loads(f"values = [{values}]")["values"]
        except tomllib.TOMLDecodeError:
            found[key.strip()] = [value.strip() for value in values.split(",")]
    return found
