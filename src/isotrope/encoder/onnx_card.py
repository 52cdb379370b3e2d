"""The card of an exported graph: what it is, how equal it is, and how to use it without torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FLOAT32, INT8 = "model.onnx", "model_int8.onnx"

_CARD = """\
---
library_name: onnx
pipeline_tag: feature-extraction
tags: [isotrope, onnx, sentence-embeddings]
---
# {name}, as an ONNX graph

Text in, vectors out, without torch. Pooling, the steps behind it and normalisation are inside the graph.

| | |
|---|---|
{rows}

```python
import numpy as np
import onnxruntime
from tokenizers import Tokenizer

folder = "path/to/this/folder"
tokenizer = Tokenizer.from_file(f"{{folder}}/tokenizer.json")  # cuts and pads as the model needs it
session = onnxruntime.InferenceSession(f"{{folder}}/{graph}")


def encode(texts: list[str]) -> np.ndarray:  # (N, {dimensions}) float32
    rows = tokenizer.encode_batch({texts})
    ids = np.array([row.ids for row in rows], dtype=np.int64)
    mask = np.array([row.attention_mask for row in rows], dtype=np.int64)
    return session.run(None, {{"input_ids": ids, "attention_mask": mask}})[0]


print(encode(["A first text.", "And a second one."]).shape)
```

It needs `pip install onnxruntime tokenizers numpy`. sentence-transformers cannot load this folder: it would add a
pooling of its own.
"""


def card(facts: Mapping[str, Any]) -> str:
    """README.md of the folder that `isotrope.encoder.onnx.export_onnx` writes."""
    rows = {
        "made from": f"`{facts['model']}`",
        "dimensions": facts["dimensions"],
        "longest text": f"{facts['max_length']} tokens; longer ones are cut",
        "largest difference to torch": f"{facts['largest_difference']:.1g} of a vector's length",
    }
    if cosine := facts.get("int8_cosine"):
        rows[f"`{INT8}`, cosine to torch"] = f"{cosine['mean']:.4f} on average, {cosine['least']:.4f} at least"
    for name, text in facts["prompts"].items():
        rows[f"prompt `{name}`"] = f"`{text!r}`: put it before each text" + (
            ", as the snippet does" if text == facts["prompt"] else ""
        )
    rows["made with"] = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    return _CARD.format(
        name=facts["model"],
        rows="\n".join(f"| {name} | {value} |" for name, value in rows.items()),
        graph=INT8 if cosine else FLOAT32,
        dimensions=facts["dimensions"],
        texts=f"[{facts['prompt']!r} + text for text in texts]" if facts["prompt"] else "texts",
    )
