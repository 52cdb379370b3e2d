"""The command line's `isotrope whiten`."""

from __future__ import annotations

from typing import Annotated

import typer

from isotrope.console.plain import plain_console

console = plain_console()


def whiten(
    model: Annotated[str, typer.Argument(help="Folder, hub name, isotrope/small or isotrope/tiny.")],
    corpus: Annotated[
        list[str], typer.Argument(help="Files, folders or URLs of .txt, .md, .html, .jsonl, .csv, .tsv, .parquet.")
    ],
    output: Annotated[str, typer.Option(help="Folder of the new model.")],
    k: Annotated[int | None, typer.Option("--k", min=1, help="How many dimensions to keep; default: all.")] = None,
    exponent: Annotated[float, typer.Option(help="From 0 (centring alone) to 0.5 (full whitening).")] = 0.25,
    sentences: Annotated[int, typer.Option(min=2, help="Fit on a random sample of so many texts.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of all random numbers.")] = 0,
    text: Annotated[
        str | None, typer.Option(help="In tables: the column of the texts; default: the only one, or text.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="sentences: fit on each sentence of a text; sentences:de for German.")
    ] = None,
    pooling: Annotated[
        str | None, typer.Option(help="How token vectors become one: cls, mean, first_last, …; default: the model's.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Words before every text, such as 'query: '; default: the model's prompt.")
    ] = None,
    prompt_name: Annotated[str | None, typer.Option(help="One of the model's own prompts, by its name.")] = None,
    dev: Annotated[
        list[str] | None,
        typer.Option(help="Labelled pairs that judge: a .tsv or .csv file, stsb, sickr; again for more."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="The data folder; it holds senteval/.", envvar="ISOTROPE_DATA")
    ] = None,
    compare: Annotated[bool, typer.Option(help="Compare before and after on tasks made from the text.")] = True,
) -> None:
    """Whiten a model, and say whether it got better.

    Whitening spreads the vectors more evenly. It becomes the last layer of the model.
    """
    from isotrope.improvement.whiten import WHITEN_RECORD
    from isotrope.improvement.whiten import whiten as run
    from isotrope.report.comparison import before_after, of_run, with_average
    from isotrope.report.tables import print_table
    from isotrope.store.records import read_record

    folder = run(
        model, corpus, output, k=k, exponent=exponent, sentences=sentences, seed=seed, text=text, split=split,
        pooling=pooling, prompt=prompt, prompt_name=prompt_name, dev=dev or [], data=data, compare=compare,
        console=plain_console(stderr=True),
    )  # fmt: skip
    record = read_record(folder / WHITEN_RECORD)
    dimensions, held_out, self_made = record["dimensions"], record["held_out"], record["self_made"]
    left_out = dimensions["left_out"]
    console.print(
        f"whitened with exponent {exponent:g}, fitted on {record['corpus']['used']:,} texts: "
        f"{dimensions['before']} → {dimensions['after']} dimensions"
        + (f", {left_out} left out since the text does not vary there" if left_out else "")
        + ("; vectors keep unit length" if record["unit_length"] else "")
    )
    if self_made:
        title = f"MRR@10 × 100 on tasks made from {held_out['used']:,} texts that the fit has not seen"
        print_table(before_after(title, with_average(self_made)), console)
    elif compare:
        few = f"{held_out['used']} of {held_out['texts']} held-out texts"
        console.print(f"not compared: {few} have 12 words or more and differ from each other; 50 are needed")
    if record["pairs"]:
        print_table(of_run(record["pairs"]), console)
    worse = record["verdict"] == "worse"
    console.print(f"{'warning: the new model is ' if worse else 'verdict: '}{record['verdict']}; {record['advice']}")
    console.print(f"model: {folder}")
