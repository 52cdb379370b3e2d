"""``isotrope export``: a model in another format."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from isotrope.console.plain import plain_console
from isotrope.console.progress import watch

console, errors = plain_console(), plain_console(stderr=True)


class Format(StrEnum):
    """What a model can be written as."""

    onnx = "onnx"


def export(
    model: Annotated[str, typer.Argument(help="Folder, hub name, isotrope/small or isotrope/tiny.")],
    output: Annotated[str, typer.Option(help="A new folder.")],
    to: Annotated[Format, typer.Option(help="The format.")] = Format.onnx,
    int8: Annotated[
        bool, typer.Option("--int8", help="Also write a graph with int8 weights: smaller, less exact.")
    ] = False,
    pooling: Annotated[
        str | None, typer.Option(help="How token vectors become one: cls, mean, first_last, …; default: the model's.")
    ] = None,
) -> None:
    """Write a model as an ONNX graph, for use without torch.

    The graph is compared with torch before it is kept.
    """
    from isotrope.training.onnx import export_onnx

    with watch("loading", errors if errors.is_interactive else plain_console(quiet=True)):  # elsewhere the lines tell
        folder = export_onnx(model, output, int8=int8, pooling=pooling, say=errors.print)
    console.print(f"written to {folder}; {folder}/README.md shows how to use it")
