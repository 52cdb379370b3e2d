"""Terms over a queue: what stands in it, what they see of it, and that it is saved."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from drawn import draw, scores
from isotrope import component
from isotrope.contract.context import BuildContext
from isotrope.terms._queue import projection
from isotrope.terms.listmle import listmle
from isotrope.terms.listnet import listnet
from isotrope.terms.queue_kl import queue_kl

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


def test_it_starts_with_the_students_own_geometry_and_random_directions() -> None:
    term = over_queue()
    assert torch.allclose(term.projection.weight.T @ term.projection.weight, torch.eye(WIDTH), atol=1e-5)
    assert torch.allclose(term.rows.norm(dim=-1), torch.ones(SIZE), atol=1e-5)


def test_batches_enter_after_their_step_and_the_oldest_leave() -> None:
    term = over_queue()
    seen = [batch(seed) for seed in range(4)]
    for each in seen:
        before = term.rows.clone()
        term(each)
        assert torch.equal(term.rows, before), "a text is not compared with itself"
        term.after_step(None)
    newest = [each.views.teachers["rank"] for each in reversed(seen)]
    assert torch.equal(term.rows, torch.cat(newest)[:SIZE])
    larger = batch(count=SIZE + 5)
    term(larger)
    term.after_step(None)
    assert torch.equal(term.rows, larger.views.teachers["rank"][:SIZE])


def test_all_batches_of_a_step_enter() -> None:
    """With ``train.accumulation``, a step has several batches. None of them meets another of its own step."""
    term, seen = over_queue(), [batch(seed) for seed in range(2)]
    before = term.rows.clone()
    for each in seen:
        term(each)
    assert torch.equal(term.rows, before)
    term.after_step(None)
    newest = [each.views.teachers["rank"] for each in reversed(seen)]
    assert torch.equal(term.rows, torch.cat([*newest, before])[:SIZE])
    term.after_step(None)
    assert torch.equal(term.rows, torch.cat([*newest, before])[:SIZE]), "they enter once"


def test_the_queue_is_saved() -> None:
    term, again = over_queue(), over_queue()
    term(batch())
    term.after_step(None)
    again.load_state_dict(term.state_dict())
    assert set(term.state_dict()) == {"rows", "projection.weight"}
    assert again(batch(1)).item() == term(batch(1)).item()


@pytest.mark.parametrize("kind", ["listnet", "listmle"])
def test_without_a_queue_nothing_is_built(kind: str) -> None:
    term = component("terms", kind, teacher="rank")
    assert term.build(BuildContext()) is term
    assert not isinstance(term, nn.Module)


def test_a_student_as_wide_as_its_teacher_starts_in_the_teachers_own_directions() -> None:
    assert torch.equal(projection(3, 3).weight, torch.eye(3))
