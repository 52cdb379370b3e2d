"""Mixed negatives against a naive version."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import draw, scores
from isotrope.scores.mixed import Mixed, mix_negatives
from isotrope.terms.infonce import InfoNCE
from oracle import losses as oracle


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_equals_the_loops(dtype: torch.dtype, tolerance: float) -> None:
    positive, partner = draw(4, 3, dtype=dtype), torch.tensor([1, 2, 3, 0])
    found = mix_negatives(positive, partner, 0.2)
    for i, other in enumerate(partner.tolist()):
        unit = [row / row.norm() for row in positive]
        mixture = 0.2 * unit[i] + 0.8 * unit[other]
        assert torch.allclose(found[i], mixture / mixture.norm(), rtol=tolerance, atol=tolerance)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 8), st.floats(0, 1), st.integers(0, 10_000))
def test_the_partner_of_the_highest_row_is_the_lowest(count: int, share: float, seed: int) -> None:
    plain = scores(draw(2, count, 5, seed=seed))
    rows = 7 * torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    batch = replace(plain.views.batch, rows=rows)
    after = Mixed(share)(replace(plain, views=replace(plain.views, batch=batch)))
    assert torch.equal(after.cosines[:, :, :count], plain.cosines)
    assert after.cosines.shape == (1, count, 2 * count)
    for i in range(count):
        later = sorted(rows.tolist()).index(int(rows[i])) + 1
        partner = rows.tolist().index(sorted(rows.tolist())[later % count])
        expected = torch.ones(count)
        expected[partner] = 0
        assert torch.equal(after.keep[:, count + i], expected.double()), "all anchors but the partner see it"
        mixture = mix_negatives(plain.views.stack[1][[i, partner]], torch.tensor([1, 0]), share)[:1]
        expected = oracle.cosines(plain.views.stack[0], mixture)[:, 0]
        assert torch.allclose(after.cosines[0, :, count + i], expected, atol=1e-9)


def test_the_gradient_is_that_of_fixed_mixtures() -> None:
    stack = draw(2, 5, 4).requires_grad_()
    found = torch.autograd.grad(InfoNCE(0.2)(Mixed()(scores(stack))), stack)[0]
    fixed = Mixed()(scores(stack.detach()))
    plain = scores(stack).with_extra(fixed.extra)
    (expected,) = torch.autograd.grad(InfoNCE(0.2)(replace(plain, keep=fixed.keep)), stack)
    assert torch.allclose(found, expected, rtol=1e-12)


def test_it_makes_the_contrast_harder() -> None:
    plain = scores(draw(2, 8, 5))
    losses = [InfoNCE()(Mixed(share)(plain)).item() for share in (0.0, 0.2, 0.5)]
    assert InfoNCE()(plain) <= losses[0] < losses[1] < losses[2]
