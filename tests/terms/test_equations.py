"""Every equation of a term against loops, its gradient against differences, and the golden numbers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.drawn import cosines_of, draw, scores
from isotrope.terms.alignment import alignment, uniformity
from isotrope.terms.arc import arc
from isotrope.terms.consistency import consistency
from isotrope.terms.ct import CT, ct, ct_pairs
from isotrope.terms.diffcse import diffcse
from isotrope.terms.group import group_contrast, peer_lists
from isotrope.terms.infonce import infonce
from isotrope.terms.listmle import listmle
from isotrope.terms.listnet import listnet
from isotrope.terms.multi_positive_inside import multi_positive_inside
from isotrope.terms.mutual_information import mutual_information
from isotrope.terms.nt_xent import nt_xent
from isotrope.terms.queue_kl import queue_kl
from isotrope.terms.self_guided import self_guided
from isotrope.terms.triplet import margin_band, triplet
from isotrope.terms.tsdae import tsdae
from isotrope.terms.vascl import neighbour_contrast
from isotrope.terms.vector_match import vector_match
from isotrope.types import Scores
from oracle import debiased, losses, ranking
from oracle import distillation as distilled

Equation = Callable[..., Any]  # of what has a gradient, then of what has none
# ours, loops, both kinds, settings
Case = tuple[Equation, Equation, list[Tensor], list[Tensor], tuple[Any, ...]]
SHAPES = [(2, 2), (5, 5), (3, 4, 4)]
CASES: dict[str, Case] = {}


def rows(*shape: int, count: int = 2) -> list[Tensor]:
    return [draw(*shape, seed=seed) for seed in range(count)]


def add(
    name: str,
    ours: Equation,
    loops: Equation,
    free: list[Tensor],
    fixed: list[Tensor],
    *settings: Any,
) -> None:
    CASES[f"{name}-{len(CASES)}"] = (ours, loops, free, fixed, settings)


for shape in SHAPES:
    anchors, both, taught = draw(*shape[-2:]), cosines_of(*shape), cosines_of(*shape[-2:], seed=1)
    add("alignment", alignment, ranking.alignment, [anchors, draw(*shape, seed=1)], [])
    for t in (2.0, 0.7):
        add("uniformity", uniformity, ranking.uniformity, [draw(*shape, seed=1)], [], t)
    add("consistency", consistency, ranking.consistency, [both], [], 0.3)
    one_temperature = lambda s, t, *tau: debiased.distillation(s, t, tau[0])  # noqa: E731
    add("distillation", queue_kl, one_temperature, [taught], [cosines_of(*taught.shape)], 0.3, 0.3)
    for drop in (True, False):
        add("listnet", listnet, ranking.listnet, [both], [taught], 0.3, 0.2, drop)
        for order in (taught, taught.round()):  # the second has ties
            add("listmle", listmle, ranking.listmle, [both], [order], 0.3, drop)
for shape in [(5, 5), (5, 9), (2, 5, 5), (3, 4, 7)]:
    for inside in (True, False):
        kept = (draw(*shape[-2:], seed=1) > -0.3).double()
        kept[:, -1] = 1  # something stays beside the positive
        for keep in (kept, torch.ones_like(kept)):
            add("infonce", infonce, losses.infonce, [cosines_of(*shape)], [keep], 0.7, inside)
for shape in [(1, 5, 5), (2, 4, 7), (4, 3, 3)]:
    for last in ((0.3, 1.0, False), (0.3, 0.4, False), (0.3, 1.0, True), (0.3, 0.4, True)):
        add(
            "inside",
            multi_positive_inside,
            losses.multi_positive_inside,
            [cosines_of(*shape)],
            [],
            *last,
        )
for count in (2, 6):
    for margin in (0.0, 0.1745, 1.0):
        add("arc", arc, losses.arc, [cosines_of(count, count)], [], 0.3, margin)
for shape in [(2, 3), (5, 4), (7, 2)]:
    add("ct", ct, losses.ct, rows(*shape), [])
    for count in (1, 3):
        add("ct_pairs", ct_pairs, losses.ct_pairs, rows(*shape), [], count)
    add("nt_xent", nt_xent, losses.nt_xent, rows(*shape), [], 0.3)
for margin in (0.0, 0.3):
    add("triplet", triplet, losses.triplet, rows(6, 4, count=3), [], margin)
for ends in ((0.1, 0.3), (0.0, 0.0), (0.5, 1.5)):
    add("margin_band", margin_band, losses.margin_band, rows(6, 4, count=3), [], *ends)
for views in (2, 4):
    add("group", group_contrast, losses.group_contrast, [draw(views, 5, 4)], [], 0.2)
    add("peer_lists", peer_lists, losses.peer_lists, rows(views, 5, 4), [], 0.2)
for count in (1, 3):
    add(
        "self_guided",
        self_guided,
        losses.self_guided,
        [draw(5, 4)],
        [draw(count, 5, 4, seed=1)],
        0.2,
    )
for shape in [(1, 1), (4, 9), (9, 4)]:
    add(
        "queue_kl",
        queue_kl,
        distilled.queue_kl,
        [cosines_of(*shape)],
        [cosines_of(*shape, seed=1)],
        0.3,
        0.2,
    )
real = (torch.arange(5) < torch.tensor([[5], [3], [2]])).long()
target = torch.tensor([[1, 2, 3, 4, 5], [1, 6, 2, 0, 0], [1, 3, 0, 0, 0]])
changed, own = (
    draw(3, 5, seed=1) > 0,
    torch.tensor([0, 0, 0, 1, 2, 2, 2])[:, None] == torch.arange(3),
)
add("tsdae", tsdae, losses.next_tokens, [draw(3, 4, 7)], [target, real])
add("diffcse", diffcse, losses.replaced_tokens, [draw(3, 5)], [changed, real])
add(
    "windows",
    lambda *x: sum(map(torch.mean, mutual_information(*x))),
    losses.mutual_information,
    [draw(7, 3)],
    [own],
)
near = torch.zeros(4, 4, dtype=torch.bool).scatter(
    1, torch.tensor([[1, 2], [0, 3], [3, 0], [2, 1]]), True
)
for both in (True, False):
    add("neighbours", neighbour_contrast, losses.neighbour_contrast, rows(4, 3), [near], 0.9, both)
for measure in ("cosine", "l2"):
    add(
        "vector_match",
        vector_match,
        distilled.vector_match,
        [draw(5, 7)],
        [draw(5, 7, seed=1)],
        measure,
    )


def value(equation: Equation, given: list[Tensor], settings: tuple[Any, ...]) -> Any:
    """The loss, or the sum of several. InfoNCE has its temperature before the candidates that stay."""
    if equation in (infonce, losses.infonce):
        return equation(given[0], 0.3, given[1], *settings)
    found = equation(*given, *settings)
    return sum(found) if isinstance(found, list) or getattr(found, "ndim", 0) else found


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("name", CASES)
def test_equals_the_loops(name: str, dtype: torch.dtype, tolerance: float) -> None:
    ours, loops, free, fixed, settings = CASES[name]
    given = [x.to(dtype) if x.is_floating_point() else x for x in (*free, *fixed)]
    expected = value(loops, given, settings)
    assert value(ours, given, settings).item() == pytest.approx(
        expected, rel=tolerance, abs=tolerance
    )


@pytest.mark.parametrize("name", CASES)
def test_gradient(name: str) -> None:
    ours, _, free, fixed, settings = CASES[name]
    given = [x.clone().requires_grad_() for x in free]
    assert torch.autograd.gradcheck(lambda *x: value(ours, [*x, *fixed], settings), given)


def test_pairs_do_not_depend_on_the_order_of_the_batch() -> None:
    given, order = scores(draw(2, 6, 4)), torch.tensor([3, 0, 5, 1, 4, 2])
    views = given.views.with_stack(given.views.stack[:, order])
    turned = Scores.from_views(replace(views, batch=replace(views.batch, rows=order)))
    expected = losses.ct_pairs(*given.views.stack, 2)
    for each in (given, turned):
        assert CT(negatives=2)(each).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_golden_numbers(golden: Path, dtype: torch.dtype, tolerance: float) -> None:
    known = {
        name: torch.from_numpy(np.asarray(array))
        for name, array in np.load(golden / "equations.npz").items()
    }
    h, first, second, taught, noise = (
        known[name].to(dtype) for name in ("h", "h_pos", "h_pos2", "teacher", "noise")
    )
    one, both = scores(torch.stack([h, first])), scores(torch.stack([h, first, second]))
    noisy, tau, (own, target) = (
        one.with_extra(noise),
        known["tau"].item(),
        known["tau_listnet"].tolist(),
    )
    alpha = known["alpha"].to(dtype)
    found = {
        "align": alignment(h, first),
        "uniform": uniformity(h),
        "consistency": consistency(one.pairs, tau),
        "listnet": listnet(one.pairs, taught, own, target),
        "listnet_with_positive": listnet(one.pairs, taught, own, target, drop_positive=False),
        "listmle": listmle(one.pairs, taught, tau),
        "listmle_without_positive": listmle(one.pairs, taught, tau, drop_positive=True),
        "infonce": infonce(one.cosines, 0.05),
        "multi_positive_l1": infonce(both.cosines, 0.05),
        "multi_positive_l1_lam05": infonce(both.cosines, 0.05, weight=0.5),
        "contrast_all": infonce(both.with_extra(noise).cosines, 0.05, alpha),
        "debiased_printed": infonce(noisy.cosines, 0.05, alpha, positive_in_denominator=False),
        "debiased_with_positive": infonce(noisy.cosines, 0.05, alpha),
        "multi_positive_l2_intended": multi_positive_inside(both.cosines, 0.05),
        "multi_positive_l2": multi_positive_inside(both.cosines, 0.05, printed=True),
    }
    for name, loss in found.items():
        assert loss.dtype == dtype, name
        assert loss.item() == pytest.approx(known[name].item(), abs=tolerance), name
