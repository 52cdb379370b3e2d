"""``isotrope pretrain``: an encoder from nothing but text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isotrope.console.plain import plain_console
from isotrope.errors import Stopped


def pretrain(
    corpus: Annotated[
        list[str], typer.Argument(help="Files, folders: .txt, .md, .html, .jsonl, .csv, .tsv, .parquet.")
    ],
    output: Annotated[str, typer.Option(help="Folder of the run: model/, metrics.jsonl, checkpoints/.")],
    size: Annotated[str, typer.Option(help="tiny, mini or small.")] = "tiny",
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1)] = 0,
    tokens: Annotated[int | None, typer.Option(min=1, help="Budget of tokens; default: the size's.")] = None,
    cold_start: Annotated[bool, typer.Option("--cold-start", help="Random embeddings, not word vectors.")] = False,
    held_out: Annotated[list[str] | None, typer.Option(help="Text whose loss is told, never trained on.")] = None,
    split: Annotated[
        str | None, typer.Option(help="sentences: read each sentence of a text alone; sentences:de for German.")
    ] = None,
    compile_: Annotated[bool, typer.Option("--compile", help="torch.compile: faster, needs a compiler.")] = False,
    licence: Annotated[str, typer.Option(help="Of the text, for the model's card.")] = "not stated",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a stopped or killed run.")] = False,
) -> None:
    """Train a small language model from text alone.

    `isotrope train` can begin with it.
    """
    from isotrope.pretraining import pretrain as run

    console = plain_console()
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
            split=split,
            licence=licence,
            resume=resume,
            console=console,
        )
    except KeyboardInterrupt:
        raise Stopped("stopped") from None
    console.print(f"model: {model}")
