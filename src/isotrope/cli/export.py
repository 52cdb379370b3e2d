"""``isotrope export``: a model without torch."""

from isotrope.cli.call import call
from isotrope.cli.options import command
from isotrope.cli.show import console


@command
def export(
    model: str,
    *,
    output: str,
    pooling: str | None = None,
    role: str | None = None,
) -> None:
    """Write a model as an ONNX graph, for use without torch.

    The graph is compared with torch before it is kept.

    Args:
        output: A new folder.
        role: query or document, for a model that reads them by two routes.
    """
    folder = call("isotrope.training.onnx:export_onnx", locals())
    console.print(f"written to {folder}; {folder}/README.md shows how to use it")
