"""The command line's `isotrope improve`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from isotrope.console.plain import plain_console


def improve(
    model: Annotated[str, typer.Argument(help="Folder, hub name, isotrope/small or isotrope/tiny.")],
    documents: Annotated[
        list[str], typer.Argument(help="Files, folders or URLs of .txt, .md, .html, .jsonl, .csv, .tsv, .parquet.")
    ],
    output: Annotated[str, typer.Option(help="Folder for the new model, the report and the work.")],
    minutes: Annotated[float, typer.Option(min=0.1, help="Time for all of it.")] = 20,
    labels: Annotated[
        str | None,
        typer.Option(help="Queries and judgements, or labelled texts, that judge: as in evaluate --labels."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="The data folder; it holds senteval/. Then STS is compared too.", envvar="ISOTROPE_DATA"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of all random numbers.")] = 0,
    pooling: Annotated[
        str | None, typer.Option(help="How token vectors become one: cls, mean, first_last, …; default: the model's.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="In tables: the column of the titles; default: title.")] = None,
    text: Annotated[str | None, typer.Option(help="In tables: the column of the texts; default: text.")] = None,
    plan: Annotated[
        str | None, typer.Option(help="Folder of an earlier improvement: do the same work, whatever time it takes.")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Begin anew, whatever the output holds.")] = False,
) -> None:
    """Make a model better for your documents, without labels, or find that it is best to keep it.

    Some documents are held out. Tasks made from them judge poolings, post steps and trainings on the others.
    """
    from isotrope.errors import Stopped
    from isotrope.improvement.improve import improve as run
    from isotrope.improvement.page import candidates_table, general_lines
    from isotrope.report.outcome import MODEL, REPORT
    from isotrope.report.tables import print_table

    console = plain_console()
    try:
        found = run(
            model, documents, output=output, minutes=minutes, labels=labels, data=data, seed=seed, pooling=pooling,
            title=title, text=text, plan=plan, restart=restart, console=plain_console(stderr=True),
        )  # fmt: skip
    except Stopped as stopped:
        plain_console(stderr=True).print(f"isotrope: {stopped}", style="bold")
        sys.exit(130)  # as Ctrl-C, whose own line would say less
    if found.record["table"]:
        print_table(candidates_table(found.record), console)
    for line in (f"verdict: {found.verdict}", *general_lines(found.record)):
        console.print(line)
    console.print(f"model:  {found.folder / MODEL}")
    console.print(f"report: {found.folder / REPORT}")
