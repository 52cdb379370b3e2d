"""Packing and its filler tokens."""

from __future__ import annotations

import pytest
import torch

from isotrope.encoder.fast.attention import Packing
from small_encoders import L, N, batch


@pytest.mark.parametrize("multiple", [1, 16])
def test_filler_tokens_change_nothing(multiple: int) -> None:
    """A GPU's rounded token counts, on a CPU: the way to packed rows and back, in values and gradients."""
    mask = batch(holes=True)["attention_mask"]
    packing, real = Packing.from_mask(mask, 2, multiple), mask[..., None, None].bool()
    x = torch.randn(N, L, 2, 3, requires_grad=True)
    rows = packing.pack(x)  # (1, T, 2, 3)
    assert rows.shape[1] == -(-int(mask.sum()) // multiple) * multiple
    heads = packing.pad_heads(rows.transpose(1, 2))  # (N, 2, L, 3)
    assert torch.equal(heads.transpose(1, 2), x * real)
    back = packing.pad(packing.pack_heads(heads))
    assert torch.equal(back, x * real)
    weight = torch.randn_like(x)
    (back * weight).sum().backward()
    assert torch.equal(x.grad, weight * real)
