"""The neighbourhood, its contrast and the perturbation."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from drawn import draw, scores
from isotrope import component
from isotrope.contract.context import BuildContext
from isotrope.terms.nt_xent import nt_xent
from isotrope.terms.vascl import VaSCL, neighbour_contrast, neighbourhood
from oracle import losses as oracle


def unit(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return F.normalize(draw(*shape, seed=seed, dtype=dtype), dim=-1)


def built(width: int, **options: float) -> VaSCL:
    torch.manual_seed(0)
    return component("terms", "vascl", **options).build(BuildContext(width=width)).double()  # type: ignore[no-any-return]


def nearest(rows: torch.Tensor, count: int) -> list[list[int]]:
    lists = rows.tolist()
    products = [[sum(p * q for p, q in zip(x, y, strict=True)) for y in lists] for x in lists]
    others = [
        sorted((j for j in range(len(rows)) if j != i), key=lambda j: -line[j]) for i, line in enumerate(products)
    ]
    return [each[:count] for each in others]


@pytest.mark.parametrize("count", [1, 3, 16])
def test_neighbours_have_the_largest_products(count: int) -> None:
    rows = draw(6, 4)
    found = neighbourhood(rows, count)
    assert [sorted(line.nonzero().flatten().tolist()) for line in found] == [sorted(n) for n in nearest(rows, count)]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("both", [True, False])
def test_the_contrast_equals_the_loops(both: bool, dtype: torch.dtype, tolerance: float) -> None:
    a, b = (unit(6, 4, seed=seed, dtype=dtype) for seed in range(2))
    found = neighbour_contrast(a, b, neighbourhood(a, 2), 0.2, both)
    assert found.item() == pytest.approx(oracle.neighbour_contrast(a, b, nearest(a, 2), 0.2, both), rel=tolerance)


def test_the_gradient_of_the_contrast() -> None:
    a, b = (unit(4, 3, seed=seed).requires_grad_() for seed in range(2))
    near = neighbourhood(a.detach(), 2)
    for both in (True, False):
        assert torch.autograd.gradcheck(lambda x, y, both=both: neighbour_contrast(x, y, near, 0.2, both), (a, b))


def test_a_step_makes_it_harder_and_is_the_gradient() -> None:
    made, anchor = built(5, radius=0.5, neighbours=3), draw(8, 5, seed=4)
    near, drawn = neighbourhood(anchor, 3), unit(8, 5, seed=5)

    def hard(direction: torch.Tensor) -> torch.Tensor:
        return neighbour_contrast(made.unit(anchor), made.unit(anchor + 0.5 * direction), near, 0.05, both=False)

    found, h = made.hardest(drawn, anchor, near), 1e-6
    assert hard(found) > hard(drawn)
    for i, d in ((0, 0), (3, 2)):
        slopes = []
        for k in range(5):
            up, down = drawn.clone(), drawn.clone()
            up[i, k] += h
            down[i, k] -= h
            slopes.append((hard(up) - hard(down)).item() / (2 * h))
        assert found[i, d].item() == pytest.approx(slopes[d] / sum(slope**2 for slope in slopes) ** 0.5, abs=1e-4)


def test_the_whole_term_from_its_parts_and_its_draws_follow_the_sentences() -> None:
    made = built(5, radius=2.0, neighbours=2, steps=0, weight=0.5)
    given = scores(stack := draw(2, 6, 5))
    drawn = torch.rand(6, 5, generator=torch.Generator().manual_seed(0)).double() - 0.5
    near = neighbourhood(stack[0], 2)
    other = stack[0] + 2 * F.normalize(drawn, dim=-1)
    virtual = neighbour_contrast(made.unit(stack[0]), made.unit(other), near, 0.05)
    expected = nt_xent(made.head(stack[0]), made.head(stack[1]), 0.05) + virtual
    assert made(given).item() == pytest.approx(0.5 * expected.item(), rel=1e-6)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    moved = scores(stack[:, order])
    batch = replace(moved.views.batch, rows=order, generator=torch.Generator().manual_seed(0))
    assert made(replace(moved, views=replace(moved.views, batch=batch))).item() == pytest.approx(0.5 * expected.item())
