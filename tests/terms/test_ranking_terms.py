"""RankCSE's terms, alignment and uniformity: against loops, the golden numbers and their own mathematics."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import isotrope
from isotrope.errors import UserError
from isotrope.terms.alignment import Alignment, alignment
from isotrope.terms.consistency import Consistency, consistency
from isotrope.terms.listmle import ListMLE, listmle
from isotrope.terms.listnet import ListNet, listnet
from isotrope.terms.uniformity import Uniformity, uniformity
from isotrope.types import Batch, Scores, Term, Views
from oracle import ranking as oracle

EVERY_TERM = [Consistency(), ListNet("rank"), ListMLE("rank"), Alignment(), Uniformity()]
names = [type(term).__name__ for term in EVERY_TERM]


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def cosines_of(*shape: int, seed: int = 0) -> Tensor:
    return torch.tanh(draw(*shape, seed=seed))


def scores(stack: Tensor, teacher: Tensor | None = None) -> Scores:
    count, dim = stack.shape[1:]
    teacher = draw(count, 5, seed=99) if teacher is None else teacher
    taught = {"rank": F.normalize(teacher, dim=-1)}
    return Scores.from_views(
        Views(Batch(torch.arange(count), torch.Generator()), stack, stack.new_zeros(count, 0, dim), taught)
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("shape", [(2, 2), (5, 5), (3, 4, 4)])
class TestEqualsTheLoops:
    def test_consistency(self, shape: tuple[int, ...], dtype: torch.dtype, tolerance: float) -> None:
        cosines = cosines_of(*shape).to(dtype)
        assert consistency(cosines, 0.3).item() == pytest.approx(oracle.consistency(cosines, 0.3), rel=tolerance)

    @pytest.mark.parametrize("drop", [True, False])
    def test_listnet(self, shape: tuple[int, ...], dtype: torch.dtype, tolerance: float, drop: bool) -> None:
        cosines, teacher = cosines_of(*shape).to(dtype), cosines_of(*shape[-2:], seed=1).to(dtype)
        expected = oracle.listnet(cosines, teacher, 0.3, 0.2, drop)
        assert listnet(cosines, teacher, 0.3, 0.2, drop).item() == pytest.approx(expected, rel=tolerance)

    @pytest.mark.parametrize("drop", [True, False])
    @pytest.mark.parametrize("ties", [True, False])
    def test_listmle(
        self, shape: tuple[int, ...], dtype: torch.dtype, tolerance: float, drop: bool, ties: bool
    ) -> None:
        cosines, teacher = cosines_of(*shape).to(dtype), cosines_of(*shape[-2:], seed=1).to(dtype)
        teacher = teacher.round() if ties else teacher  # -1, 0 and 1
        expected = oracle.listmle(cosines, teacher, 0.3, drop)
        assert listmle(cosines, teacher, 0.3, drop).item() == pytest.approx(expected, rel=tolerance, abs=tolerance)

    def test_alignment_and_uniformity(self, shape: tuple[int, ...], dtype: torch.dtype, tolerance: float) -> None:
        anchors, positives = draw(*shape[-2:], dtype=dtype), draw(*shape, seed=1, dtype=dtype)
        expected = oracle.alignment(anchors, positives)
        assert alignment(anchors, positives).item() == pytest.approx(expected, rel=tolerance)
        for t in (2.0, 0.7):
            expected = oracle.uniformity(positives, t)
            assert uniformity(positives, t).item() == pytest.approx(expected, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_golden_numbers(golden: Path, dtype: torch.dtype, tolerance: float) -> None:
    numbers = np.load(golden / "equations.npz")
    value = {name: torch.from_numpy(np.asarray(numbers[name])) for name in numbers.files}
    h, positive, teacher = (value[name].to(dtype) for name in ("h", "h_pos", "teacher"))
    cosines, tau = scores(torch.stack([h, positive])).pairs, value["tau"].item()
    student, target = value["tau_listnet"].tolist()
    found = {
        "consistency": consistency(cosines, tau),
        "listnet": listnet(cosines, teacher, student, target),
        "listnet_with_positive": listnet(cosines, teacher, student, target, drop_positive=False),
        "listmle": listmle(cosines, teacher, tau),
        "listmle_without_positive": listmle(cosines, teacher, tau, drop_positive=True),
        "align": alignment(h, positive),
        "uniform": uniformity(h),
    }
    for name, loss in found.items():
        assert loss.dtype == dtype
        assert loss.item() == pytest.approx(value[name].item(), abs=tolerance), name


@pytest.mark.parametrize(
    "loss",
    [
        partial(consistency, temperature=0.3),
        partial(listnet, teacher=cosines_of(4, 4, seed=1), temperature=0.3, teacher_temperature=0.2),
        partial(
            listnet, teacher=cosines_of(4, 4, seed=1), temperature=0.3, teacher_temperature=0.2, drop_positive=False
        ),
        partial(listmle, teacher=cosines_of(4, 4, seed=1), temperature=0.3),
        partial(listmle, teacher=cosines_of(4, 4, seed=1).round(), temperature=0.3, drop_positive=True),
        partial(alignment, draw(4, 4, seed=1)),
        uniformity,
    ],
)
def test_gradient(loss: Callable[[Tensor], Tensor]) -> None:
    assert torch.autograd.gradcheck(loss, cosines_of(2, 4, 4).requires_grad_())
    assert torch.autograd.gradcheck(loss, cosines_of(4, 4).requires_grad_())


@pytest.mark.parametrize("term", EVERY_TERM, ids=names)
@settings(max_examples=15, deadline=None)
@given(count=st.integers(2, 9), positives=st.integers(1, 3), seed=st.integers(0, 10_000))
def test_permuting_the_batch_leaves_the_loss(term: Term, count: int, positives: int, seed: int) -> None:
    stack, teacher = draw(1 + positives, count, 6, seed=seed), draw(count, 5, seed=seed + 1)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    permuted = term(scores(stack[:, order], teacher[order])).item()
    assert permuted == pytest.approx(term(scores(stack, teacher)).item(), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("term", EVERY_TERM, ids=names)
def test_scale_of_the_embeddings_does_not_matter(term: Term) -> None:
    stack = draw(2, 5, 6)
    assert term(scores(1000 * stack)).item() == pytest.approx(term(scores(stack)).item(), rel=1e-9)


@pytest.mark.parametrize("term", EVERY_TERM, ids=names)
def test_is_the_mean_over_positives(term: Term) -> None:
    stack = draw(3, 5, 6)
    if isinstance(term, Uniformity):  # over views
        each = [uniformity(view).item() for view in stack]
    else:
        each = [term(scores(stack[[0, p]])).item() for p in (1, 2)]
    assert term(scores(stack)).item() == pytest.approx(sum(each) / len(each), rel=1e-12)


@pytest.mark.parametrize("kind", ["consistency", "listnet", "listmle", "alignment", "uniformity"])
def test_is_found_by_name_and_weighted(kind: str) -> None:
    options = {"teacher": "rank"} if kind.startswith("list") else {}
    batch = scores(draw(2, 5, 6))
    once = isotrope.component("terms", kind, **options)(batch).item()
    assert once != 0
    assert isotrope.component("terms", kind, weight=0.25, **options)(batch).item() == pytest.approx(once / 4)


def test_extra_candidates_stay_out_of_the_lists() -> None:
    """Noise has no place in the teacher's list: the terms on lists see sentences alone."""
    batch = scores(draw(2, 5, 6))
    for term in EVERY_TERM:
        assert term(batch.with_extra(draw(3, 6, seed=7))).item() == term(batch).item()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.floats(0.01, 1), st.integers(0, 10_000), st.sampled_from([torch.float32, torch.float64]))
def test_identical_views_have_no_inconsistency(count: int, temperature: float, seed: int, dtype: torch.dtype) -> None:
    view = F.normalize(draw(count, 6, seed=seed), dim=-1)
    cosines = (view @ view.T).to(dtype)
    cosines = (cosines.triu() + cosines.triu(1).T).requires_grad_()  # identical views: the transpose is the same list
    loss = consistency(cosines, temperature)
    loss.backward()
    assert loss.item() == 0.0
    assert cosines.grad is not None
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
    assert student.grad is not None
    assert student.grad.abs().max().item() < 1e-12 / temperature
    elsewhere = teacher + 0.1 * draw(count, count, seed=seed + 1)
    assert listnet(elsewhere, teacher, temperature, temperature, drop) >= loss - 1e-12


@pytest.mark.parametrize("drop", [True, False])
def test_the_positive_has_a_gradient_only_where_it_stays(drop: bool) -> None:
    teacher = cosines_of(4, 4, seed=1)
    for loss in (partial(listnet, temperature=0.3, teacher_temperature=0.2), partial(listmle, temperature=0.3)):
        student = cosines_of(4, 4).requires_grad_()
        loss(student, teacher, drop_positive=drop).backward()
        assert student.grad is not None
        assert bool((student.grad.diagonal() == 0).all()) is drop


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("case", ["all equal", "opposite", "two clusters"])
@pytest.mark.parametrize(
    "term",
    [
        Consistency(0.01), ListNet("rank", 0.01, 0.01), ListMLE("rank", 0.01),
        ListMLE("rank", 0.01, drop_positive=True), Alignment(), Uniformity(),
    ],
)  # fmt: skip
def test_finite_at_saturated_similarities(term: Term, case: str, dtype: torch.dtype) -> None:
    """Cosines of exactly 1 and -1, repeated sentences, a teacher with ties: no NaN may reach a weight."""
    row = torch.ones(16, 8)
    stacks = {"all equal": [row, row], "opposite": [row, -row]}
    clusters = torch.cat([row[:8], -row[8:]])
    stack = torch.stack(stacks.get(case, [clusters, -clusters.flip(0)])).to(dtype).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        loss = term(scores(stack, clusters))
    loss.backward()
    assert torch.isfinite(loss)
    assert stack.grad is not None
    assert torch.isfinite(stack.grad).all()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_small_temperature_in_float32(seed: int) -> None:
    """Logits up to ±100: the value and the gradient stay those of float64."""
    exact, teacher = cosines_of(24, 24, seed=seed) * 0.999, cosines_of(24, 24, seed=seed + 1)
    for loss in (
        lambda cosines: consistency(cosines, 0.01),
        lambda cosines: listnet(cosines, teacher.to(cosines), 0.01, 0.01),
        lambda cosines: listmle(cosines, teacher.to(cosines), 0.01),
    ):
        single, double = exact.float().requires_grad_(), exact.float().double().requires_grad_()
        found, expected = loss(single), loss(double)
        assert found.item() == pytest.approx(expected.item(), rel=1e-4)
        (gradient,), (reference,) = torch.autograd.grad(found, single), torch.autograd.grad(expected, double)
        assert torch.allclose(gradient.double(), reference, atol=1e-3 * reference.abs().max().item())


def test_uniform_points_are_lower_than_a_cluster() -> None:
    spread, cluster = torch.eye(6, dtype=torch.float64), torch.ones(6, 6, dtype=torch.float64)
    assert uniformity(spread).item() == pytest.approx(-4)  # all squared distances are 2
    assert uniformity(cluster).item() == pytest.approx(0, abs=1e-12)
    assert alignment(spread, -spread).item() == pytest.approx(4)


def test_uniformity_needs_a_pair() -> None:
    with pytest.raises(UserError, match="a batch of 1 sentence"):
        uniformity(draw(1, 6))
