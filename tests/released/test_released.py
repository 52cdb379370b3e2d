"""What released code does instead of its paper, against loops, and how it departs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.drawn import cosines_of, draw, scores
from isotrope import load
from isotrope.contract.context import BuildContext
from isotrope.objective.passes import Passes
from isotrope.released.dclr import AgainstBatch, NoMask, SoftmaxBCE, ZeroLogit, softmax_bce
from isotrope.released.rankcse import Clamped, Floored, clamped_consistency, floored_listmle
from isotrope.released.whitenedcse import Detach
from isotrope.scores.noise import Noise, gradient
from isotrope.terms._queue import without_positive
from isotrope.terms.consistency import consistency
from isotrope.terms.infonce import InfoNCE
from isotrope.terms.listmle import listmle
from isotrope.views.sgw import SGW
from oracle import losses
from oracle import released as oracle
from oracle.debiased import gradient as differences

TAUGHT = cosines_of(5, 5, seed=1)
KEPT = (draw(4, 7, seed=1) > -0.5).double().fill_diagonal_(1)
# ours, loops, cosines
EQUATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Tensor]] = {
    "clamped": (lambda c: clamped_consistency(c, 0.3), lambda c: oracle.consistency(c, 0.3), cosines_of(5, 5)),
    "clamped far": (lambda c: clamped_consistency(c, 0.05), lambda c: oracle.consistency(c, 0.05), cosines_of(5, 5)),
    "floored": (lambda c: floored_listmle(c, TAUGHT, 0.3), lambda c: oracle.listmle(c, TAUGHT, 0.3), cosines_of(5, 5)),
    "floored far": (
        lambda c: floored_listmle(c, TAUGHT, 0.05), lambda c: oracle.listmle(c, TAUGHT, 0.05), cosines_of(5, 5)
    ),
    "softmax_bce": (lambda c: softmax_bce(c, 0.3, KEPT), lambda c: oracle.softmax_bce(c, 0.3, KEPT), cosines_of(4, 7)),
    "of positives": (
        lambda c: softmax_bce(c, 0.3, KEPT),
        lambda c: sum(oracle.softmax_bce(matrix, 0.3, KEPT) for matrix in c),
        cosines_of(2, 4, 7),
    ),
    "all kept": (lambda c: softmax_bce(c, 0.3), lambda c: oracle.softmax_bce(c, 0.3, KEPT**0), cosines_of(4, 7)),
}  # fmt: skip


@pytest.mark.parametrize("name", EQUATIONS)
def test_equals_the_loops(name: str) -> None:
    ours, loops, cosines = EQUATIONS[name]
    assert ours(cosines).item() == pytest.approx(loops(cosines), rel=1e-9)
    assert "far" in name or torch.autograd.gradcheck(ours, cosines.clone().requires_grad_())


def test_the_noise_ascends_a_loss_with_the_whole_batch() -> None:
    """Against differences of the loss with the whole batch in its denominator; it goes elsewhere
    than Eq. 3.
    """
    noise, anchor, positive = draw(3, 4), draw(5, 4, seed=1), draw(5, 4, seed=2)
    batch = F.normalize(anchor, dim=1) @ F.normalize(positive, dim=1).T
    slopes = differences(noise.tolist(), anchor, positive, 0.3, oracle.non_uniformity)
    found = gradient(noise, anchor, 0.3, batch)
    assert torch.allclose(found, torch.tensor(slopes, dtype=torch.float64), rtol=0, atol=1e-8)
    stack = torch.stack([anchor, positive, draw(5, 4, seed=3)])
    steps = {"ratio": 0.6, "step_size": 0.2, "temperature": 0.3}
    found, paper = AgainstBatch(**steps)(scores(stack)).extra, Noise(**steps)(scores(stack)).extra
    expected = Noise(ratio=0.6, steps=0)(scores(stack)).extra
    for _ in range(4):
        expected = expected + 0.2 * F.normalize(gradient(expected, anchor, 0.3, batch), dim=1)
    assert torch.allclose(found, expected)
    assert not torch.allclose(found, paper, atol=1e-3)


def test_the_clamped_consistency_rewards_entropy() -> None:
    flat_lists, sharp = torch.zeros(5, 5, dtype=torch.float64), torch.eye(5, dtype=torch.float64)
    for agreeing in (flat_lists, sharp):
        assert consistency(agreeing, 0.3).item() == 0
    assert clamped_consistency(flat_lists, 0.3) < clamped_consistency(sharp, 0.3) < 0
    plain = scores(draw(2, 5, 6))
    assert Clamped(weight=0.5)(plain).item() == pytest.approx(
        clamped_consistency(plain.pairs, 0.05).item() / 2
    )


def test_whitening_matrices_carry_no_gradient() -> None:
    stack = draw(2, 6, 4).requires_grad_()
    found = []
    for kind in (SGW, Detach):
        whitened = kind(groups=2, copies=2).build(BuildContext(4))(scores(stack).views).stack
        loss = (whitened * draw(4, 6, 4, seed=2)).sum()
        found.append((loss.item(), torch.autograd.grad(loss, stack)[0]))
    assert found[0][0] == found[1][0]
    assert not torch.allclose(found[0][1], found[1][1])


def test_the_order_of_the_far_end_hardly_counts_for_listmle() -> None:
    teacher = torch.tensor([[4.0, 3.0, 2.0, 1.0]])
    right, wrong = torch.tensor(
        [[[0.95, 0.9, 0.01, 0.0]], [[0.95, 0.9, 0.0, 0.01]]], dtype=torch.float64
    )
    costs = [
        each(wrong, teacher, 0.05) - each(right, teacher, 0.05)
        for each in (listmle, floored_listmle)
    ]
    assert costs[0] > 0.19
    assert 0 < costs[1] < 0.05
    plain = scores(draw(2, 5, 6), draw(5, 6, seed=3))
    lists = (without_positive(each) for each in (plain.pairs, plain.teacher("guide")))
    whole = floored_listmle(*lists, 0.1)
    assert Floored("guide", 0.1, 0.5, drop_positive=True)(plain).item() == pytest.approx(
        whole.item() / 2
    )


def test_padding_is_read_as_by_an_encoder_without_a_mask(tiny_model: Path) -> None:
    model = load(tiny_model, "cls", dropout=0.0, device="cpu").eval()
    column = model.preprocess(["hello", "some words that are more than hello and more than those"])
    (plain, read), _ = Passes(model, [(NoMask(), [1])], torch.Generator()).read(column, [0, 1])
    states = load(tiny_model, "cls", dropout=0.0, device="cpu", packed=False).eval()[0].auto_model
    naive = states(input_ids=column["input_ids"]).last_hidden_state[:, 0]
    assert torch.allclose(read, naive, atol=1e-5)
    assert torch.allclose(plain[1], read[1], atol=1e-5), "the longest has no padding"
    assert not torch.allclose(plain[0], read[0], atol=1e-3)


@pytest.mark.parametrize("case", ["equal", "hopeless", "perfect"])
def test_softmax_bce_is_finite_where_its_model_is_not(case: str) -> None:
    """p = 1 for a negative, or for the positive, in float32 at τ = .01; all the same."""
    rows = torch.eye(4).requires_grad_()
    other = {
        "equal": torch.ones(4, 4),
        "hopeless": torch.eye(4).roll(1, 0),
        "perfect": torch.eye(4),
    }[case]
    loss = SoftmaxBCE(temperature=0.01)(
        scores(torch.stack([rows if case != "equal" else rows * 0 + 1, other]))
    )
    loss.backward()
    assert torch.isfinite(loss)
    assert rows.grad is not None
    assert torch.isfinite(rows.grad).all()


def test_the_logit_of_a_false_negative_is_0() -> None:
    guide = draw(4, 6, seed=9)
    guide[3] = guide[1]
    plain = scores(draw(2, 4, 6), guide)
    released = ZeroLogit("guide", 0.9)(plain)
    assert released.keep.equal(plain.keep)
    cosines = plain.cosines.clone()
    cosines[:, 1, 3] = cosines[:, 3, 1] = 0.0
    assert released.cosines.equal(cosines)
    assert InfoNCE()(released).item() == pytest.approx(losses.infonce(cosines, 0.05), rel=1e-10)
