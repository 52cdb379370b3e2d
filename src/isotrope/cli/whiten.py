"""The command line's `isotrope whiten`."""

from __future__ import annotations

from typing import Annotated

import typer

from isotrope.console.plain import plain_console

console = plain_console()


def whiten(
    model: Annotated[str, typer.Argument(help="Folder, hub name, or isotrope/tiny.")],
    corpus: Annotated[
        list[str], typer.Argument(help="Files, folders: .txt, .md, .html, .jsonl, .csv, .tsv, .parquet.")
    ],
    output: Annotated[str, typer.Option(help="Folder of the new model.")],
    k: Annotated[int | None, typer.Option("--k", min=1, help="Dimensions to keep; default: all.")] = None,
    sentences: Annotated[int, typer.Option(min=2, help="Fit on a random sample of so many.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1)] = 0,
    text: Annotated[str | None, typer.Option(help="Column of the sentences, in tables.")] = None,
    split: Annotated[
        str | None, typer.Option(help="sentences: fit on each sentence of a text; sentences:de for German.")
    ] = None,
    pooling: Annotated[str | None, typer.Option(help="cls, mean, first_last, …; default: the model's.")] = None,
    prompt: Annotated[str | None, typer.Option(help="Words before every text, such as 'query: '.")] = None,
    prompt_name: Annotated[str | None, typer.Option(help="The same: one of the model's own prompts.")] = None,
) -> None:
    """Spread a model's vectors evenly: BERT-whitening, fitted on text without labels, as the model's last layer."""
    from isotrope.post.whiten import whiten as run

    folder = run(
        model, corpus, output, k=k, sentences=sentences, seed=seed, text=text, split=split, pooling=pooling,
        prompt=prompt, prompt_name=prompt_name,
    )  # fmt: skip
    console.print(f"model: {folder}; is it better? isotrope evaluate {model} {folder} --compare")
