"""``isotrope encode``: text of any size into vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from isotrope.console.plain import plain_console
from isotrope.errors import UserError
from isotrope.store.remote import is_url

DEFAULT = "isotrope/small"

console, errors = plain_console(), plain_console(stderr=True)


def encode(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL] FILE...",
            help=f"A model (folder, hub name; without one: {DEFAULT}), then files of text; each row gives one vector.",
        ),
    ],
    output: Annotated[str, typer.Option(help="OUT.npy, OUT.parquet, or a folder or URL for Parquet files.")],
    text: Annotated[
        str | None, typer.Option(help="In tables: the column of the texts; default: the only one, or text.")
    ] = None,
    keep: Annotated[str | None, typer.Option(help="Columns to write beside the vectors, such as id,title.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Texts at a time, at most; fewer where they are long.")] = 64,
    pooling: Annotated[
        str | None, typer.Option(help="How token vectors become one: cls, mean, first_last, …; default: the model's.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Words before every text, such as 'query: '; default: the model's prompt.")
    ] = None,
    prompt_name: Annotated[str | None, typer.Option(help="One of the model's own prompts, by its name.")] = None,
    engine: Annotated[str, typer.Option(help="one process, several processes, or ray (needs isotrope[ray]).")] = "one",
    jobs: Annotated[int | None, typer.Option(min=1, help="Workers of processes or ray; default: one a core.")] = None,
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster; default: Ray on this machine.")] = None,
) -> None:
    """Turn text of any size into vectors.

    The memory does not grow with the text. After a stop, the same command goes on.
    """
    from isotrope.encoding.encode import encode as run
    from isotrope.encoding.output import beside

    model, files = model_and_files(names)
    written = run(
        model, files, output, text=text, batch_size=batch_size, pooling=pooling, prompt=prompt, prompt_name=prompt_name,
        keep=keep or (), engine=engine, jobs=jobs, address=address, console=errors,
    )  # fmt: skip
    columns = f", the kept columns to {beside(Path(written))}" if keep and str(written).endswith(".npy") else ""
    console.print(f"written to {written}{columns}{'' if model == names[0] else f' (model: {model})'}")


def model_and_files(names: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The first name is the model, a folder or a name of the hub. If it is a file or a URL, no model is named.

    Raises:
        UserError: no text is named.
    """
    if is_url(names[0]) or Path(names[0]).expanduser().is_file():
        return DEFAULT, names
    if len(names) == 1:
        raise UserError(f"{names[0]} is taken as the model, and no text follows", "name the model, then files of text")
    return names[0], names[1:]
