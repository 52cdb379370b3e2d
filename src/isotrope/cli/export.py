"""``isotrope export``: a model in another format."""

from isotrope.cli.options import command
from isotrope.cli.words import Word
from isotrope.console.plain import plain_console
from isotrope.console.progress import watch


@command(
    output=Word("A new folder.", required=True),
    int8=Word("Also write a graph with int8 weights: smaller, less exact."),
)
def export(model: str, *, output: str, int8: bool = False, pooling: str | None = None) -> None:
    """Write a model as an ONNX graph, for use without torch.

    The graph is compared with torch before it is kept.
    """
    from isotrope.training.onnx import export_onnx

    errors = plain_console(stderr=True)
    with watch("loading", errors if errors.is_interactive else plain_console(quiet=True)):  # elsewhere the lines tell
        folder = export_onnx(model, output, int8=int8, pooling=pooling, say=errors.print)
    plain_console().print(f"written to {folder}; {folder}/README.md shows how to use it")
