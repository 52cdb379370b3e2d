"""Which candidates an anchor sees: hard negatives, a queue of keys, mixtures; and which views are
positives.
"""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.drawn import draw, scores
from helpers.refusals import refused
from isotrope import component
from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.scores.hard_negatives import HardNegatives, Positives
from isotrope.scores.key_queue import KeyQueue
from isotrope.scores.mixed import Mixed
from isotrope.terms.infonce import InfoNCE
from oracle import losses


def test_every_anchor_sees_all_of_them() -> None:
    stack = draw(2, 4, 6)
    plain = scores(stack, hard=2)
    after = HardNegatives()(plain)
    negatives = plain.views.negatives.flatten(0, 1)
    assert torch.allclose(
        after.cosines[0, :, 4:], F.normalize(stack[0], dim=1) @ F.normalize(negatives, dim=1).T
    )
    expected = losses.infonce(losses.cosines(stack[0], torch.cat([stack[1], negatives])), 0.05)
    assert abs(InfoNCE()(after).item() - expected) < 1e-9


def test_other_views_leave_the_contrast_and_stay_in_the_batch() -> None:
    stack = draw(4, 5, 3)
    found = Positives((3, 1))(scores(stack).with_extra(draw(2, 3, seed=5)))
    expected = scores(stack[[0, 3, 1]]).with_extra(draw(2, 3, seed=5))
    assert torch.equal(found.cosines, expected.cosines)
    assert InfoNCE()(found).item() == InfoNCE()(expected).item()
    assert torch.equal(found.views.stack, stack)
    with pytest.raises(
        UserError,
        match=r"scores\.positives\.views = \[4\] .* the views are 0 to 3: name other views",
    ):
        Positives((4,))(scores(stack))
    for wrong in ([], [0]):
        with refused("impossible-value", "scores.positives.views"):
            component("scores", "positives", views=wrong)


def test_a_batch_meets_earlier_keys_and_not_its_own() -> None:
    made = KeyQueue(5).build(BuildContext(width=3)).double()
    batches = [scores(draw(2, 4, 3, seed=seed)) for seed in range(3)]
    assert made(batches[0]).cosines.shape == (1, 4, 4), "the queue begins empty"
    made(batches[1])  # a second batch of the same step, as with train.accumulation = 2
    made.after_step(None)
    expected = torch.cat([batch.views.stack[1] for batch in batches[:2]])[-5:]
    found = made(batches[2])
    assert torch.equal(found.extra, expected)
    assert found.cosines.shape == (1, 4, 9)
    assert torch.equal(found.cosines, batches[2].with_extra(expected).cosines)
    made.eval()(batches[0])
    made.train().after_step(None)
    assert torch.equal(
        made(batches[0]).extra, torch.cat([expected, batches[2].views.stack[1]])[-5:]
    ), "no evaluation"


def test_keys_have_no_gradient_and_backward_survives_the_next_step() -> None:
    made, stack = KeyQueue(4).build(BuildContext(width=3)).double(), draw(2, 4, 3).requires_grad_()
    made(scores(stack))
    made.after_step(None)
    loss = InfoNCE()(made(scores(stack)))
    made.after_step(None)
    loss.backward()
    assert not made.rows.requires_grad
    assert stack.grad is not None


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
        assert torch.equal(after.keep[:, count + i], expected.double()), (
            "all anchors but the partner see it"
        )
        own, other = (row / row.norm() for row in plain.views.stack[1][[i, partner]])
        expected = losses.cosines(plain.views.stack[0], (share * own + (1 - share) * other)[None])[
            :, 0
        ]
        assert torch.allclose(after.cosines[0, :, count + i], expected, atol=1e-9)


def test_the_gradient_is_that_of_fixed_mixtures() -> None:
    stack = draw(2, 5, 4).requires_grad_()
    found = torch.autograd.grad(InfoNCE(0.2)(Mixed()(scores(stack))), stack)[0]
    fixed = Mixed()(scores(stack.detach()))
    plain = scores(stack).with_extra(fixed.extra)
    (expected,) = torch.autograd.grad(InfoNCE(0.2)(replace(plain, keep=fixed.keep)), stack)
    assert torch.allclose(found, expected, rtol=1e-12)
