"""Lists of a teacher, a queue or a peer, beyond their equations: where they rest, and what they know."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
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
from isotrope.terms._queue import projection
from isotrope.terms.alignment import alignment
from isotrope.terms.consistency import consistency
from isotrope.terms.distillation import distillation
from isotrope.terms.listmle import listmle
from isotrope.terms.listnet import listnet
from isotrope.terms.peer_lists import PeerLists, peer_lists
from isotrope.terms.queue_kl import queue_kl
from isotrope.terms.uniformity import uniformity
from isotrope.terms.vector_match import Distance, vector_match


def test_opposites_are_four_apart() -> None:
    spread = torch.eye(6, dtype=torch.float64)
    assert alignment(spread, -spread).item() == pytest.approx(4)


def test_uniform_points_are_lower_than_a_cluster() -> None:
    spread, cluster = torch.eye(6, dtype=torch.float64), torch.ones(6, 6, dtype=torch.float64)
    assert uniformity(spread).item() == pytest.approx(-4)  # all squared distances are 2
    assert uniformity(cluster).item() == pytest.approx(0, abs=1e-12)


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


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 9), st.floats(0.01, 1), st.integers(0, 10_000))
def test_consistency_is_a_divergence(count: int, temperature: float, seed: int) -> None:
    """Between 0 and log 2, and no matter which view is the anchor."""
    cosines = cosines_of(count, count, seed=seed)
    loss = consistency(cosines, temperature).item()
    assert 0 < loss <= math.log(2) * (1 + 1e-12)
    assert consistency(cosines.T, temperature).item() == pytest.approx(loss, rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 9), st.floats(0.02, 1), st.booleans(), st.integers(0, 10_000))
def test_listnet_is_stationary_at_the_teacher(count: int, temperature: float, drop: bool, seed: int) -> None:
    teacher = cosines_of(count, count, seed=seed)
    student = teacher.clone().requires_grad_()
    loss = listnet(student, teacher, temperature, temperature, drop)
    loss.backward()
    assert student.grad.abs().max().item() < 1e-12 / temperature
    elsewhere = teacher + 0.1 * draw(count, count, seed=seed + 1)
    assert listnet(elsewhere, teacher, temperature, temperature, drop) >= loss - 1e-12


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_the_teachers_order_is_the_likeliest(seed: int) -> None:
    """Among all permutations of the same scores, those in the teacher's order have the lowest loss."""
    teacher, values = cosines_of(4, 4, seed=seed), cosines_of(4, 4, seed=seed + 1).sort(descending=True).values
    places = teacher.argsort(descending=True).argsort()  # the rank of each column
    best = listmle(values.gather(1, places), teacher, 0.1).item()
    for permutation in itertools.permutations(range(4)):
        assert listmle(values.gather(1, places)[:, list(permutation)], teacher, 0.1).item() >= best - 1e-12


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 100), st.floats(-5, 5), st.integers(0, 10_000))
def test_listmle_knows_only_the_teachers_order(scale: float, shift: float, seed: int) -> None:
    student, teacher = cosines_of(6, 6, seed=seed), cosines_of(6, 6, seed=seed + 1)
    loss = listmle(student, teacher, 0.05).item()
    assert listmle(student, scale * teacher + shift, 0.05).item() == loss
    assert listmle(student, (teacher / 0.3).exp(), 0.05).item() == loss


def test_ties_keep_the_order_of_the_columns() -> None:
    student = cosines_of(70, 70)  # longer than the sort's unstable small case
    falling = -torch.arange(70.0).expand(70, 70)
    assert listmle(student, torch.zeros(70, 70), 0.1) == listmle(student, falling, 0.1)


def test_all_permutations_have_probability_one() -> None:
    """ListMLE is the logarithm of a distribution over orders (RankCSE Sec. 3)."""
    row = cosines_of(4)
    total = 0.0
    for permutation in itertools.permutations(range(4)):
        teacher = torch.tensor(permutation, dtype=torch.float64).expand(4, 4)
        total += math.exp(-listmle(row.expand(4, 4), teacher, 0.4).item())
    assert total == pytest.approx(1, rel=1e-12)


def test_the_gradient_is_that_of_listnet() -> None:
    """It is that of ListNet over the queue: the two differ by the teacher's entropy."""
    student, teacher = cosines_of(4, 9).requires_grad_(), cosines_of(4, 9, seed=1)
    (of_kl,) = torch.autograd.grad(queue_kl(student, teacher, 0.3, 0.2), student)
    (of_listnet,) = torch.autograd.grad(listnet(student, teacher, 0.3, 0.2, drop_positive=False), student)
    assert torch.allclose(of_kl, of_listnet, rtol=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 9), st.integers(2, 9), st.floats(0.02, 1), st.integers(0, 10_000))
def test_rests_where_the_student_agrees(count: int, queue: int, temperature: float, seed: int) -> None:
    """Twice the temperature for lists twice as wide: the same distributions, so no loss; elsewhere it is above 0."""
    teacher = cosines_of(count, queue, seed=seed)
    student = (teacher / 2).requires_grad_()
    loss = queue_kl(student, teacher, temperature, 2 * temperature)
    (gradient,) = torch.autograd.grad(loss, student)
    assert loss.item() == pytest.approx(0, abs=1e-12)
    assert gradient.abs().max() < 1e-12 / temperature
    assert queue_kl(cosines_of(count, queue, seed=seed + 1), teacher, temperature, temperature) >= 0


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


def test_a_student_as_wide_as_its_teacher_starts_in_the_teachers_own_directions() -> None:
    assert torch.equal(projection(3, 3).weight, torch.eye(3))


def test_equal_encoders_agree() -> None:
    own = draw(3, 6, 4)
    assert peer_lists(own, 7 * own, 0.05).item() == pytest.approx(0, abs=1e-9)


def test_the_views_are_named() -> None:
    given = scores(stack := draw(4, 5, 3))
    expected = peer_lists(stack[[0, 2]], stack[[1, 3]], 0.05)
    assert PeerLists(own=(0, 2), peer=(1, 3), weight=0.5)(given).item() == pytest.approx(0.5 * expected.item())
    with pytest.raises(UserError, match=r"peer = \[1, 4\] is not possible"):
        PeerLists(own=(0, 2), peer=(1, 4))(given)


def test_distillation_rests_at_the_teacher() -> None:
    teacher = torch.tanh(draw(5, 5))
    cosines = teacher.clone().requires_grad_()
    value = distillation(cosines, teacher, 0.05)
    value.backward()
    assert value.item() == pytest.approx(0.0, abs=1e-12)
    assert cosines.grad.abs().max() < 1e-12
    other = torch.tanh(draw(2, 4, 4)).requires_grad_()
    assert torch.autograd.gradcheck(lambda c: distillation(c, teacher[:4, :4], 0.3), other)


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
    found, expected = ours(scores(student[None], teacher)), theirs.compute_loss_from_embeddings([student], [unit])
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    (found + expected).backward()
    assert torch.allclose(ours.projection.weight.grad, theirs.projection.weight.grad, rtol=1e-4, atol=1e-7)


def test_a_student_at_its_teacher_has_a_finite_gradient() -> None:
    vectors = F.normalize(draw(5, 7), dim=-1).requires_grad_()
    for measure in ("cosine", "l2"):
        loss = vector_match(vectors, vectors.detach().clone(), measure)
        (gradient,) = torch.autograd.grad(loss, vectors)
        assert loss.item() == pytest.approx(0, abs=1e-12)
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("drop", [True, False])
@pytest.mark.parametrize(
    "equation", [lambda *given: listmle(*given[:3], given[4]), listnet], ids=["listmle", "listnet"]
)
def test_the_positive_has_a_gradient_only_where_it_stays(equation: Callable[..., torch.Tensor], drop: bool) -> None:
    student = cosines_of(4, 4).requires_grad_()
    equation(student, cosines_of(4, 4, seed=1), 0.3, 0.2, drop).backward()
    assert bool((student.grad.diagonal() == 0).all()) is drop
