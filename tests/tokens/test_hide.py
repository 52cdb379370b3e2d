"""Words hidden in the first pass of the first column, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import torch

from conftest import sentences
from isotrope import component, load
from isotrope.contract.context import BuildContext
from isotrope.objective.passes import encode_columns


def test_words_of_anchors_alone_are_hidden(tiny_model: Path) -> None:
    model = load(tiny_model, "mean", dropout=0.0, device="cpu").eval()
    step = component("tokens", "hide", ratio=0.5).build(BuildContext.of(model))
    text = model.preprocess(sentences(4))
    shown = step(dict(text), torch.Generator().manual_seed(1))["input_ids"]
    noise = torch.rand(*text["input_ids"].shape, 3, generator=torch.Generator().manual_seed(1))
    assert torch.equal(shown, step.hiding(text["input_ids"], text["attention_mask"], noise)[1])
    assert not torch.equal(shown, text["input_ids"])
    columns = [dict(text) for _ in range(3)]
    with torch.no_grad():
        stack, further, readings = encode_columns(
            model, columns, 1, [(step, [0])], torch.Generator().manual_seed(1), None
        )
        whole = model(dict(text))["sentence_embedding"]
    assert torch.equal(readings[0].read["input_ids"], shown)
    assert torch.allclose(stack[1], whole, atol=1e-5)
    assert torch.allclose(further[:, 0], whole, atol=1e-5), "texts behind the positive are read whole"
    assert not torch.allclose(stack[0], whole, atol=1e-3)
