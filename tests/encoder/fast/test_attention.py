"""Packing and its filler tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from isotrope.encoder.fast.attention import Packing, attend
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


@pytest.mark.parametrize("dropout", [0.0, 1e-9])  # torch's kernel, and the attention as it is written
def test_without_padding_no_head_is_copied_and_nothing_else_changes(dropout: float) -> None:
    packing = Packing.from_mask(torch.ones(3, 4), 2)
    assert packing.even
    assert not Packing.from_mask(torch.ones(3, 4), 2, multiple=5).even
    heads = [torch.randn(1, 2, 12, 6, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    weight = torch.randn(1, 12, 2, 6, dtype=torch.float64)
    found = list[list[torch.Tensor]]()
    for form in (packing, replace(packing, even=False)):
        out = attend(*heads, form, form.bias, dropout, None)
        found.append([out, *torch.autograd.grad((out * weight).sum(), heads)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize(
    ("lengths", "split"), [([40] * 4, False), ([40, 3, 4, 5], True), ([40, 30, 30, 30], False), ([32, 3, 3, 3], False)]
)
def test_sentences_are_split_by_length_where_that_saves_half_of_the_work(lengths: list[int], split: bool) -> None:
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    parts = Packing.from_mask(mask, 2).split().parts
    assert bool(parts) == split
    if split:
        assert sorted(torch.cat([sentences for sentences, _ in parts]).tolist()) == [0, 1, 2, 3]
        assert [part.bias.shape[-1] for _, part in parts] == [5, 40]


def test_in_half_precision_attention_that_learns_is_the_same_to_rounding() -> None:
    """It is written out there, since torch's kernel is slow."""
    packing = Packing.from_mask(batch()["attention_mask"], 2)
    count = int(batch()["attention_mask"].sum())
    exact = [torch.randn(1, 2, count, 8).bfloat16().requires_grad_() for _ in range(3)]
    half = [x.detach().clone().requires_grad_() for x in exact]
    expected = attend(*(x.float() for x in exact), packing, packing.bias, 0.0, None)
    found = attend(*half, packing, packing.bias, 0.0, None)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, atol=0.03, rtol=0.03)
    expected.pow(2).sum().backward()
    found.float().pow(2).sum().backward()
    for one, other in zip(exact, half, strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=0.1, rtol=0.05)
