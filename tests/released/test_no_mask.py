"""DCLR's student as released: padding counts."""

from __future__ import annotations

from pathlib import Path

import torch

from isotrope import load
from isotrope.objective.passes import encode_passes
from isotrope.released.no_mask import NoMask


def test_padding_is_read_as_by_an_encoder_without_a_mask(tiny_model: Path) -> None:
    model = load(tiny_model, "cls", dropout=0.0, device="cpu").eval()
    column = model.preprocess(["hello", "some words that are more than hello and more than those"])
    (plain, read), _ = encode_passes(model, column, [0, 1], [(NoMask(), [1])], torch.Generator(), None)
    states = load(tiny_model, "cls", dropout=0.0, device="cpu", packed=False).eval()[0].auto_model
    naive = states(input_ids=column["input_ids"]).last_hidden_state[:, 0]
    assert torch.allclose(read, naive, atol=1e-5)
    assert torch.allclose(plain[1], read[1], atol=1e-5), "the longest has no padding"
    assert not torch.allclose(plain[0], read[0], atol=1e-3)
