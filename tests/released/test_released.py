"""Where public code departs from its paper: the options that do as it does, against loops, and the presets of them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.objective.preset import read_preset
from isotrope.objective.sources import flat
from isotrope.scores.noise import Noise, ascend, gradient
from isotrope.terms.consistency import Consistency, consistency
from isotrope.terms.infonce import InfoNCE
from isotrope.terms.softmax_bce import SoftmaxBCE, softmax_bce
from isotrope.types import Batch, Scores, Views
from oracle import released as oracle


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def scores(stack: Tensor) -> Scores:
    count, dim = stack.shape[1:]
    batch = Batch(torch.arange(count), torch.Generator().manual_seed(0))
    return Scores.from_views(Views(batch, stack, stack.new_zeros(count, 0, dim), {}))


@pytest.mark.parametrize("shape", [(4, 4), (4, 7)])
def test_softmax_bce_equals_the_loops(shape: tuple[int, int]) -> None:
    cosines, keep = torch.tanh(draw(*shape)), (draw(*shape, seed=1) > -0.5).double()
    keep.fill_diagonal_(1)
    whole = torch.ones_like(keep)
    assert softmax_bce(cosines, 0.3).item() == pytest.approx(oracle.softmax_bce(cosines, 0.3, whole), rel=1e-10)
    assert softmax_bce(cosines, 0.3, keep).item() == pytest.approx(oracle.softmax_bce(cosines, 0.3, keep), rel=1e-10)
    both = torch.stack([cosines, cosines.flip(1)])
    expected = sum(oracle.softmax_bce(matrix, 0.3, keep) for matrix in both)
    assert softmax_bce(both, 0.3, keep).item() == pytest.approx(expected, rel=1e-10)
    assert torch.autograd.gradcheck(lambda c: softmax_bce(c, 0.3, keep), both.requires_grad_())


@pytest.mark.parametrize("case", ["equal", "hopeless", "perfect"])
def test_softmax_bce_is_finite_where_its_model_is_not(case: str) -> None:
    """p = 1 for a negative, or for the positive, in float32 at τ = .01; all the same."""
    rows = torch.eye(4).requires_grad_()
    other = {"equal": torch.ones(4, 4), "hopeless": torch.eye(4).roll(1, 0), "perfect": torch.eye(4)}[case]
    loss = SoftmaxBCE(temperature=0.01)(scores(torch.stack([rows if case != "equal" else rows * 0 + 1, other])))
    loss.backward()
    assert torch.isfinite(loss)
    assert rows.grad is not None
    assert torch.isfinite(rows.grad).all()


def test_softmax_bce_learns_what_infonce_learns() -> None:
    stack = draw(2, 6, 8).requires_grad_()
    ours, theirs = (torch.autograd.grad(term(scores(stack)), stack)[0] for term in (InfoNCE(0.3), SoftmaxBCE(0.3)))
    assert torch.cosine_similarity(ours.flatten(), theirs.flatten(), dim=0) > 0.8


def test_the_released_ascent() -> None:
    """Against differences of the loss with the whole batch in its denominator; it goes elsewhere than Eq. 3."""
    noise, anchor, positive = draw(3, 4), draw(5, 4, seed=1), draw(5, 4, seed=2)
    batch = F.normalize(anchor, dim=1) @ F.normalize(positive, dim=1).T
    width, slopes = 1e-5, torch.zeros(3, 4, dtype=torch.float64)
    for j in range(3):
        for d in range(4):
            sides = []
            for sign in (1, -1):
                moved = noise.clone()
                moved[j, d] += sign * width
                sides.append(oracle.non_uniformity(moved.tolist(), anchor, positive, 0.3))
            slopes[j, d] = (sides[0] - sides[1]) / (2 * width)
    assert torch.allclose(gradient(noise, anchor, 0.3, batch), slopes, rtol=0, atol=1e-8)
    expected = noise + 0.2 * F.normalize(slopes, dim=1)
    assert torch.allclose(ascend(noise, anchor, positive, 0.3, 0.2, 1, batch), expected, rtol=0, atol=1e-6)
    stack = torch.stack([anchor, positive, draw(5, 4, seed=3)])
    steps = {"ratio": 0.6, "step_size": 0.2, "temperature": 0.3}
    found, paper = Noise(against_batch=True, **steps)(scores(stack)).extra, Noise(**steps)(scores(stack)).extra
    start = Noise(ratio=0.6, steps=0)(scores(stack)).extra
    assert torch.allclose(found, ascend(start, anchor, positive, 0.3, 0.2, 4, batch))
    assert not torch.allclose(found, paper, atol=1e-3)


def test_the_clamped_consistency_rewards_entropy() -> None:
    cosines = torch.tanh(draw(5, 5))
    assert consistency(cosines, 0.3, clamped=True).item() == pytest.approx(oracle.consistency(cosines, 0.3), rel=1e-10)
    assert torch.autograd.gradcheck(lambda c: consistency(c, 0.3, clamped=True), cosines.clone().requires_grad_())
    flat_lists, sharp = torch.zeros(5, 5, dtype=torch.float64), torch.eye(5, dtype=torch.float64)
    for agreeing in (flat_lists, sharp):
        assert consistency(agreeing, 0.3).item() == 0
    assert consistency(flat_lists, 0.3, clamped=True) < consistency(sharp, 0.3, clamped=True) < 0
    plain = scores(draw(2, 5, 6))
    assert Consistency(clamped=True, weight=0.5)(plain).item() == pytest.approx(
        consistency(plain.pairs, 0.05, clamped=True).item() / 2
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dclr-bert-base-released", {"scores.noise.ratio": 1.0, "train.epochs": 3.0}),
        ("dclr-bert-large-released", {"scores.noise.ratio": 3.0, "train.epochs": 1.0, "train.batch_size": 64}),
    ],
)
def test_dclr_as_released(name: str, expected: dict[str, object]) -> None:
    found = flat(read_preset(name))
    expected = {
        **expected, "scores.instance_weight.zero_logit": True, "scores.instance_weight.noise": False,
        "scores.noise.against_batch": True, "terms.softmax_bce.temperature": 0.05,
    }  # fmt: skip
    assert {key: found[key] for key in expected} == expected
    assert "infonce" not in read_preset(name).terms


@pytest.mark.parametrize("kind", ["listnet", "listmle"])
def test_rankcse_as_the_community_has_it(kind: str) -> None:
    found = flat(read_preset(f"rankcse-{kind}-bert-base-released"))
    assert found["terms.consistency.clamped"] is True
    if kind == "listnet":
        assert found["terms.rank.temperature"] == found["terms.infonce.temperature"]
