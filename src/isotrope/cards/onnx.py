"""The card of an exported graph: that of its model, how equal the graph is, and how to use it without torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from isotrope.cards.card import Card, as_code

FLOAT32, INT8 = "model.onnx", "model_int8.onnx"


def onnx_card(facts: Mapping[str, Any], source: Card) -> str:
    """README.md of the folder that `isotrope.training.onnx.export_onnx` writes.

    Args:
        facts: what ``export.json`` holds.
        source: the card of the model.
    """
    rows: dict[Any, Any] = {
        "made from": as_code(facts["model"]),
        "dimensions": facts["dimensions"],
        "longest text": f"{facts['max_length']} tokens; longer ones are cut",
        "largest difference to torch": f"{facts['largest_difference']:.1g} of a vector's length",
    }
    if cosine := facts.get("int8_cosine"):
        equal = f"{cosine['mean']:.4f} on average, {cosine['least']:.4f} at least; not judged on any task"
        rows[as_code(INT8) + ", cosine to torch"] = equal
    prompt = facts["prompt"]
    for name, text in facts["prompts"].items():
        used = ", as the snippet does" if text == prompt else ""
        rows["prompt " + as_code(name)] = as_code(repr(text)) + f": put it before each text{used}"
    rows["made with"] = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    tags = ["isotrope", "onnx", "sentence-embeddings"]
    shape = {"width": facts["dimensions"], "max_length": facts["max_length"]}
    return source.model_copy(update=shape).filled(
        "onnx.md.jinja",
        {"library_name": "onnx", "pipeline_tag": "feature-extraction", "tags": tags},
        facts=facts,
        rows=rows,
        graph=INT8 if cosine else FLOAT32,
        texts=Markup(f"[{prompt!r} + text for text in texts]" if prompt else "texts"),
    )
