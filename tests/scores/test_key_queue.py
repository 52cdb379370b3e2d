"""A queue of keys against a plain list."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import draw, scores
from isotrope.contract.context import BuildContext
from isotrope.scores.key_queue import KeyQueue, pushed
from isotrope.terms.infonce import InfoNCE


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 9), st.lists(st.integers(1, 4), max_size=4), st.integers(0, 10_000))
def test_the_last_keys_stay(size: int, batches: list[int], seed: int) -> None:
    queue, every = torch.zeros(0, 3, dtype=torch.float64), []
    for number, count in enumerate(batches):
        keys = draw(count, 3, seed=seed + number)
        queue = pushed(queue, keys, size)
        every += keys.tolist()
    assert queue.tolist() == every[-size:]


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
    assert torch.equal(made(batches[0]).extra, torch.cat([expected, batches[2].views.stack[1]])[-5:]), "no evaluation"


def test_the_queue_is_saved() -> None:
    made = KeyQueue(5).build(BuildContext(width=3)).double()
    for seed in range(2):
        made(scores(draw(2, 3, 3, seed=seed)))
        made.after_step(None)
    again = KeyQueue(5).build(BuildContext(width=3)).double()
    again.load_state_dict(made.state_dict())
    batch = scores(draw(2, 3, 3, seed=9))
    assert torch.equal(again(batch).extra, made(batch).extra)
    assert len(made(batch).extra) == 5


def test_keys_have_no_gradient_and_backward_survives_the_next_step() -> None:
    made, stack = KeyQueue(4).build(BuildContext(width=3)).double(), draw(2, 4, 3).requires_grad_()
    made(scores(stack))
    made.after_step(None)
    loss = InfoNCE()(made(scores(stack)))
    made.after_step(None)
    loss.backward()
    assert not made.rows.requires_grad
    assert stack.grad is not None
