"""Contrasts, and lists of a teacher or a queue, beyond their equations: bounds, edges, and what
they name and know.
"""

import math
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers.sentence_transformer.losses import EmbedDistillLoss

from helpers.drawn import cosines_of, draw, scores
from helpers.refusals import refused
from helpers.words import sentences
from isotrope import component, load
from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.preset.preset import build_objective, read_preset
from isotrope.terms.arc import arc, with_margin
from isotrope.terms.consistency import consistency
from isotrope.terms.group import Group, PeerLists, group_contrast, peer_lists
from isotrope.terms.infonce import infonce
from isotrope.terms.listmle import listmle
from isotrope.terms.listnet import listnet
from isotrope.terms.multi_positive_inside import MultiPositiveInside
from isotrope.terms.nt_xent import nt_xent
from isotrope.terms.queue_kl import queue_kl
from isotrope.terms.self_guided import SelfGuided, Translated
from isotrope.terms.triplet import MarginBand, Triplet, margin_band, triplet
from isotrope.terms.vascl import VaSCL, neighbour_contrast, neighbourhood
from isotrope.terms.vector_match import Distance
from oracle import losses as oracle


def test_descending_pulls_and_the_printed_form_pushes() -> None:
    for printed in (False, True):
        stack = draw(3, 8, 6).requires_grad_()
        before = scores(stack.detach()).cosines.diagonal(dim1=1, dim2=2).mean()
        for _ in range(50):
            (grad,) = torch.autograd.grad(
                MultiPositiveInside(printed=printed)(scores(stack)), stack
            )
            stack = (stack - 0.1 * grad).detach().requires_grad_()
        after = scores(stack.detach()).cosines.diagonal(dim1=1, dim2=2).mean()
        assert (after < before) if printed else (after > before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("edge", [1.0, -1.0, 1.0000001, -1.0000001, 0.99999994])
def test_the_edges_are_exact_and_have_finite_gradients(edge: float, dtype: torch.dtype) -> None:
    cosine = torch.full((3, 3), edge, dtype=dtype).requires_grad_()
    found = with_margin(cosine, 0.1745)
    angle = math.acos(max(-1.0, min(1.0, float(cosine[0, 0].detach()))))
    assert found[0, 0].item() == pytest.approx(math.cos(angle + 0.1745), abs=1e-6)
    arc(cosine, 0.05, 0.1745).backward()
    assert torch.isfinite(cosine.grad).all()


@pytest.mark.parametrize(
    ("term", "expected", "wrong", "problem"),
    [
        (
            Triplet(near=3, far=2, weight=1.0),
            lambda s: triplet(s[0], s[3], s[2]),
            Triplet(far=4),
            "[0, 1, 4]",
        ),
        (
            Group(views=(3, 1, 0)),  # the first two have InfoNCE
            lambda s: (
                infonce(oracle.cosines(s[3], s[1]), 0.05) + group_contrast(s[[3, 1, 0]], 0.05)
            ),
            Group(views=(0, 4)),
            "terms.group.views = [0, 4]",
        ),
        (
            PeerLists(own=(0, 2), peer=(1, 3)),
            lambda s: peer_lists(s[[0, 2]], s[[1, 3]], 0.05),
            PeerLists(own=(0, 2), peer=(1, 4)),
            "peer = [1, 4]",
        ),
    ],
    ids=["triplet", "group", "peer_lists"],
)
def test_the_views_are_named(
    term: Any, expected: Callable[[torch.Tensor], Any], wrong: Any, problem: str
) -> None:
    given = scores(stack := draw(4, 5, 3))
    assert term(given).item() == pytest.approx(expected(stack).item())
    with pytest.raises(
        UserError, match=re.escape(f"{problem} is not possible: the views are 0 to 3")
    ):
        wrong(given)


def test_the_soft_negative_is_a_view_or_a_column() -> None:
    given = scores(stack := draw(3, 5, 4), hard=2)
    one = margin_band(*stack, 0.1, 0.3)
    assert MarginBand(weight=1.0)(given).item() == pytest.approx(one.item())
    own = margin_band(stack[0], stack[1], given.views.negatives[:, 0], 0.1, 0.3)
    assert MarginBand(view=0, weight=1.0)(given).item() == pytest.approx(own.item())
    assert MarginBand(view=0).reads_negatives
    assert not MarginBand().reads_negatives
    with refused("no-negatives"):
        MarginBand(view=0)(scores(draw(2, 5, 4)))


def test_it_compares_what_the_projector_gives() -> None:
    made: SelfGuided = (
        component("terms", "self_guided", size=7, weight=0.5).build(BuildContext(width=4)).double()
    )
    stack = draw(3, 5, 4)
    first, second = made.projector[0], made.projector[2]
    outer = F.gelu(F.gelu(stack @ first.weight.T + first.bias) @ second.weight.T + second.bias)
    assert outer.shape == (3, 5, 7)
    assert made(scores(stack)).item() == pytest.approx(
        0.5 * oracle.self_guided(outer[0], outer[1:], 0.01), rel=1e-9
    )
    back: Translated = (
        component("terms", "translated", size=7).build(BuildContext(width=4)).double()
    )
    assert back(scores(stack[:2])).item() == pytest.approx(
        oracle.nt_xent(*back.projector(stack[:2]), 0.01), rel=1e-9
    )


def test_the_preset_holds_weights_near_their_start_and_embeddings_fixed(tiny_model: Path) -> None:
    small = [
        "terms.self_guided.size=8",
        "peers.layers.count=3",
        "views.passes=4",
        "peers.layers.on=[1, 2, 3]",
    ]
    model = load(tiny_model, "cls", dropout=0.0, device="cpu").train()
    objective = build_objective(read_preset("sg-opt", small), model)
    (term,) = objective.terms.values()
    frozen = {name for name, weight in model.named_parameters() if not weight.requires_grad}
    assert frozen == {name for name, _ in model.named_parameters() if ".embeddings." in name}
    assert not any("start" in name for name in objective.state_dict()), "the backbone has them"
    batch = model.preprocess(sentences(6))
    before = objective([dict(batch)])["self_guided"].item()
    weight = next(weight for weight in model.parameters() if weight.requires_grad)
    with torch.no_grad():
        weight[0, 0] += 2.0
    assert term.moved().item() == pytest.approx(4.0, rel=1e-5)
    loss = objective([dict(batch)])["self_guided"]
    term.drift = 0.0
    assert (loss - objective([dict(batch)])["self_guided"]).item() == pytest.approx(0.4, rel=1e-3)
    loss.backward()
    assert before > 0


def test_the_preset_asks_for_the_column(tiny_model: Path) -> None:
    model = load(tiny_model, "mean", device="cpu").train()
    objective = build_objective(read_preset("contrastive-bt", ["terms.translated.size=8"]), model)
    with refused("no-positives"):
        objective([model.preprocess(sentences(6))])


def built(width: int, **options: float) -> VaSCL:
    torch.manual_seed(0)
    return component("terms", "vascl", **options).build(BuildContext(width=width)).double()


def test_a_step_makes_it_harder_and_is_the_gradient() -> None:
    made, anchor = built(5, radius=0.5, neighbours=3), draw(8, 5, seed=4)
    near, drawn = neighbourhood(anchor, 3), F.normalize(draw(8, 5, seed=5), dim=-1)

    def hard(direction: torch.Tensor) -> torch.Tensor:
        return neighbour_contrast(
            made.unit(anchor), made.unit(anchor + 0.5 * direction), near, 0.05, both=False
        )

    found, h = made.hardest(drawn, anchor, near), 1e-6
    assert hard(found) > hard(drawn)
    for i, d in ((0, 0), (3, 2)):
        slopes = []
        for k in range(5):
            up, down = drawn.clone(), drawn.clone()
            up[i, k] += h
            down[i, k] -= h
            slopes.append((hard(up) - hard(down)).item() / (2 * h))
        assert found[i, d].item() == pytest.approx(
            slopes[d] / sum(slope**2 for slope in slopes) ** 0.5, abs=1e-4
        )


def test_the_whole_term_from_its_parts() -> None:
    made = built(5, radius=2.0, neighbours=2, steps=0, weight=0.5)
    given = scores(stack := draw(2, 6, 5))
    drawn = torch.rand(6, 5, generator=torch.Generator().manual_seed(0)).double() - 0.5
    near = neighbourhood(stack[0], 2)
    other = stack[0] + 2 * F.normalize(drawn, dim=-1)
    virtual = neighbour_contrast(made.unit(stack[0]), made.unit(other), near, 0.05)
    expected = nt_xent(made.head(stack[0]), made.head(stack[1]), 0.05) + virtual
    assert made(given).item() == pytest.approx(0.5 * expected.item(), rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 12),
    st.floats(0.01, 1),
    st.integers(0, 10_000),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_identical_views_have_no_inconsistency(
    count: int, temperature: float, seed: int, dtype: torch.dtype
) -> None:
    view = F.normalize(draw(count, 6, seed=seed), dim=-1)
    cosines = (view @ view.T).to(dtype)
    # identical views: the transpose is the same list
    cosines = (cosines.triu() + cosines.triu(1).T).requires_grad_()
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
    "queue_kl": (
        {"temperature": 0.3, "teacher_temperature": 0.2},
        lambda s, t: queue_kl(s, t, 0.3, 0.2),
    ),
    "listnet": (
        {"temperature": 0.3, "teacher_temperature": 0.2},
        lambda s, t: listnet(s, t, 0.3, 0.2, False),
    ),
    "listmle": ({"temperature": 0.3}, lambda s, t: listmle(s, t, 0.3)),
}


def over_queue(kind: str = "queue_kl", **options: Any) -> Any:
    torch.manual_seed(0)
    context = BuildContext(width=WIDTH, teachers={"rank": SimpleNamespace(width=TEACHER)})
    return component("terms", kind, teacher="rank", queue=SIZE, **options).build(context)


def batch(seed: int = 0, count: int = 3) -> Any:
    return scores(
        draw(1, count, WIDTH, seed=seed).float(), draw(count, TEACHER, seed=seed + 50).float()
    )


@pytest.mark.parametrize("kind", LISTS)
def test_the_lists_are_the_queue(kind: str) -> None:
    """Projected student against queue, and teacher against queue; nothing of the batch, whatever
    the equation.
    """
    options, equation = LISTS[kind]
    term, given = over_queue(kind, weight=0.5, **options), batch()
    student = F.normalize(
        F.normalize(given.views.stack[0], dim=-1) @ term.projection.weight.T, dim=-1
    )
    expected = equation(student @ term.rows.T, given.views.teachers["rank"] @ term.rows.T)
    assert term(given).item() == pytest.approx(0.5 * expected.item(), rel=1e-5)


def test_the_batches_of_a_step_enter_after_it_and_the_oldest_leave() -> None:
    """With ``train.accumulation``, a step has several batches. None of them meets another of its
    own step.
    """
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
    student, teacher = (
        F.normalize(draw(6, 4, dtype=torch.float32), dim=-1),
        draw(6, 8, seed=1, dtype=torch.float32),
    )
    context = BuildContext(width=4, teachers={"rank": SimpleNamespace(width=8)})
    ours = component("terms", "vector_match", teacher="rank", measure=measure).build(context)
    theirs = EmbedDistillLoss(torch.nn.Identity(), measure)
    theirs.projection = torch.nn.Linear(4, 8, bias=False)
    theirs.projection.weight.data.copy_(ours.projection.weight)
    unit = F.normalize(teacher, dim=-1)
    assert torch.allclose(
        ours.projection.weight.T @ ours.projection.weight, torch.eye(4), atol=1e-5
    ), "an isometry"
    found, expected = (
        ours(scores(student[None], teacher)),
        theirs.compute_loss_from_embeddings([student], [unit]),
    )
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    (found + expected).backward()
    assert torch.allclose(
        ours.projection.weight.grad, theirs.projection.weight.grad, rtol=1e-4, atol=1e-7
    )


def test_without_a_projection_the_students_own_vectors_are_the_teachers() -> None:
    student, teacher = draw(6, 4, dtype=torch.float32), draw(6, 4, seed=1, dtype=torch.float32)
    context = BuildContext(width=4, teachers={"rank": SimpleNamespace(width=4)})
    term = component("terms", "vector_match", teacher="rank", measure="l2", projected=False).build(
        context
    )
    given = scores(student[None], teacher)
    expected = (F.normalize(student, dim=-1) - given.views.teachers["rank"]).norm(dim=-1).mean()
    assert term(given).item() == pytest.approx(expected.item(), rel=1e-6)
    assert not list(term.parameters())
    wider = BuildContext(width=4, teachers={"rank": SimpleNamespace(width=8)})
    with refused("unknown-name"):
        component("terms", "vector_match", teacher="rank", projected=False).build(wider)
