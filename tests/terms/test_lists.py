"""Lists of a teacher, a queue or a peer, beyond their equations: where they rest, and what they know."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers.sentence_transformer.losses import EmbedDistillLoss

from drawn import cosines_of, draw, scores
from isotrope import component
from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.terms.consistency import consistency
from isotrope.terms.listmle import listmle
from isotrope.terms.listnet import listnet
from isotrope.terms.queue_kl import queue_kl
from isotrope.terms.vector_match import Distance


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.floats(0.01, 1), st.integers(0, 10_000), st.sampled_from([torch.float32, torch.float64]))
def test_identical_views_have_no_inconsistency(count: int, temperature: float, seed: int, dtype: torch.dtype) -> None:
    view = F.normalize(draw(count, 6, seed=seed), dim=-1)
    cosines = (view @ view.T).to(dtype)
    cosines = (cosines.triu() + cosines.triu(1).T).requires_grad_()  # identical views: the transpose is the same list
    loss = consistency(cosines, temperature)
    loss.backward()
    assert loss.item() == 0.0
    assert cosines.grad.abs().max().item() <= 10 / temperature * torch.finfo(dtype).eps


def test_ties_keep_the_order_of_the_columns() -> None:
    student = cosines_of(70, 70)  # longer than the sort's unstable small case
    falling = -torch.arange(70.0).expand(70, 70)
    assert listmle(student, torch.zeros(70, 70), 0.1) == listmle(student, falling, 0.1)


WIDTH, TEACHER, SIZE = 4, 6, 10
LISTS = {  # kind -> options, and the equation on the lists (N, K) of student and teacher
    "queue_kl": ({"temperature": 0.3, "teacher_temperature": 0.2}, lambda s, t: queue_kl(s, t, 0.3, 0.2)),
    "listnet": ({"temperature": 0.3, "teacher_temperature": 0.2}, lambda s, t: listnet(s, t, 0.3, 0.2, False)),
    "listmle": ({"temperature": 0.3}, lambda s, t: listmle(s, t, 0.3)),
}


def over_queue(kind: str = "queue_kl", **options: Any) -> Any:
    torch.manual_seed(0)
    context = BuildContext(width=WIDTH, teachers={"rank": SimpleNamespace(width=TEACHER)})
    return component("terms", kind, teacher="rank", queue=SIZE, **options).build(context)


def batch(seed: int = 0, count: int = 3) -> Any:
    return scores(draw(1, count, WIDTH, seed=seed).float(), draw(count, TEACHER, seed=seed + 50).float())


@pytest.mark.parametrize("kind", LISTS)
def test_the_lists_are_the_queue(kind: str) -> None:
    """Projected student against queue, and teacher against queue; nothing of the batch, whatever the equation."""
    options, equation = LISTS[kind]
    term, given = over_queue(kind, weight=0.5, **options), batch()
    student = F.normalize(F.normalize(given.views.stack[0], dim=-1) @ term.projection.weight.T, dim=-1)
    expected = equation(student @ term.rows.T, given.views.teachers["rank"] @ term.rows.T)
    assert term(given).item() == pytest.approx(0.5 * expected.item(), rel=1e-5)


def test_the_batches_of_a_step_enter_after_it_and_the_oldest_leave() -> None:
    """With ``train.accumulation``, a step has several batches. None of them meets another of its own step."""
    term = over_queue()
    before = term.rows.clone()
    for step in ((0, 1), (2,), (3,)):
        entering = []
        for seed in step:
            term(given := batch(seed))
            entering.insert(0, given.views.teachers["rank"])
            assert torch.equal(term.rows, before), "a text is not compared with itself"
        term.after_step(None)
        before = torch.cat([*entering, before])[:SIZE]
        assert torch.equal(term.rows, before)
    larger = batch(count=SIZE + 5)
    term(larger)
    term.after_step(None)
    term.after_step(None)
    assert torch.equal(term.rows, larger.views.teachers["rank"][:SIZE]), "they enter once"


@pytest.mark.parametrize("measure", ["cosine", "l2"])
def test_equals_sentence_transformers(measure: Distance) -> None:
    """Same vectors, same projection: same value, and same gradient of the projection."""
    student, teacher = F.normalize(draw(6, 4, dtype=torch.float32), dim=-1), draw(6, 8, seed=1, dtype=torch.float32)
    context = BuildContext(width=4, teachers={"rank": SimpleNamespace(width=8)})
    ours = component("terms", "vector_match", teacher="rank", measure=measure).build(context)
    theirs = EmbedDistillLoss(torch.nn.Identity(), measure)
    theirs.projection = torch.nn.Linear(4, 8, bias=False)
    theirs.projection.weight.data.copy_(ours.projection.weight)
    unit = F.normalize(teacher, dim=-1)
    assert torch.allclose(ours.projection.weight.T @ ours.projection.weight, torch.eye(4), atol=1e-5), "an isometry"
    found, expected = ours(scores(student[None], teacher)), theirs.compute_loss_from_embeddings([student], [unit])
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    (found + expected).backward()
    assert torch.allclose(ours.projection.weight.grad, theirs.projection.weight.grad, rtol=1e-4, atol=1e-7)


def test_without_a_projection_the_students_own_vectors_are_the_teachers() -> None:
    student, teacher = draw(6, 4, dtype=torch.float32), draw(6, 4, seed=1, dtype=torch.float32)
    context = BuildContext(width=4, teachers={"rank": SimpleNamespace(width=4)})
    term = component("terms", "vector_match", teacher="rank", measure="l2", projected=False).build(context)
    given = scores(student[None], teacher)
    expected = (F.normalize(student, dim=-1) - given.views.teachers["rank"]).norm(dim=-1).mean()
    assert term(given).item() == pytest.approx(expected.item(), rel=1e-6)
    assert not list(term.parameters())
    wider = BuildContext(width=4, teachers={"rank": SimpleNamespace(width=8)})
    with pytest.raises(UserError, match="without a projection, the student's width '4' is unknown: choose one of 8"):
        component("terms", "vector_match", teacher="rank", projected=False).build(wider)
