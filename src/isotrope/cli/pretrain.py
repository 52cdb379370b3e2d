"""``isotrope pretrain``: an encoder from nothing but text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isotrope.console.plain import plain_console
from isotrope.errors import Stopped


def pretrain(
    corpus: Annotated[
        list[str], typer.Argument(help="Files or folders of .txt, .md, .html, .jsonl, .csv, .tsv, .parquet.")
    ],
    output: Annotated[str, typer.Option(help="Folder for the run; the new model is in its model/.")],
    size: Annotated[str, typer.Option(help="Size of the model: tiny, mini or small.")] = "tiny",
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of all random numbers.")] = 0,
    tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many tokens to train on; default: 60 million (tiny), 500 million (mini), 4 billion (small).",
        ),
    ] = None,
    cold_start: Annotated[
        bool, typer.Option("--cold-start", help="Begin with random embeddings, not with word vectors.")
    ] = False,
    held_out: Annotated[
        list[str] | None, typer.Option(help="File to measure the loss on; it is never trained on; again for more.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="sentences: read each sentence of a text alone; sentences:de for German.")
    ] = None,
    compile_: Annotated[
        bool, typer.Option("--compile", help="Use torch.compile: faster, but needs a C++ compiler.")
    ] = False,
    licence: Annotated[str, typer.Option(help="Licence of the text, for the model's card.")] = "not stated",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
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
