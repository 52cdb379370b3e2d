"""Heads and means of views, against their layers by hand."""

from dataclasses import replace

import pytest
import torch

from helpers.drawn import draw, scores
from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.views.branches import Branches
from isotrope.views.denoised import Denoised, MeanPositive, denoise, mean_positive
from isotrope.views.mlp import MLP
from isotrope.views.projector import Projector


def test_it_is_a_matrix_product_and_a_tanh_on_every_embedding() -> None:
    head, given = MLP(0.5).build(BuildContext(6)).double(), scores(draw(3, 5, 6), hard=2).views
    weight, bias = head.linear.weight, torch.nn.init.normal_(head.linear.bias)
    after = head(given)
    for rows, found in ((given.stack, after.stack), (given.negatives, after.negatives)):
        for row, other in zip(rows.flatten(0, 1), found.flatten(0, 1), strict=True):
            assert torch.allclose(other, torch.tanh(weight @ row + bias))
    assert after.batch is given.batch
    assert after.teachers is given.teachers, "a teacher has its own space"


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_equals_the_layers_by_hand(dtype: torch.dtype, tolerance: float, dropout: float) -> None:
    """Row by row, with gradients; the draws belong to the sentences, in the order of their numbers."""
    torch.manual_seed(0)
    made = Branches(slow=(1, 2), dropout=dropout).build(BuildContext(4)).to(dtype)
    with torch.no_grad():
        made.average[0].weight.mul_(2)
    views = scores(draw(3, 5, 4, dtype=dtype).requires_grad_(), hard=1).views
    views = replace(views, batch=replace(views.batch, rows=torch.tensor([4, 0, 3, 1, 2])))
    after = made(views)
    generator = torch.Generator().manual_seed(0)
    stay = (torch.rand(4, 5, 4, generator=generator) >= dropout)[:, views.batch.rows].to(dtype) / (
        1 - dropout
    )

    def normed(row: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        line = torch.stack([sum(w * x for w, x in zip(each, row, strict=True)) for each in weight])
        centred = line - sum(line) / len(line)
        return centred / (sum(x * x for x in centred) / len(line) + 1e-5).sqrt()

    own = made.projector[0].weight.detach()
    rows = []
    for i, row in enumerate(views.stack[0]):
        inner = normed(normed(row, own) * stay[0, i], made.predictor[0].weight) * stay[1, i]
        rows.append(torch.tanh(made.predictor[2].weight @ inner))
    keys = [
        torch.stack([normed(x, 2 * own) * stay[v + 1, i] for i, x in enumerate(views.stack[v])])
        for v in (1, 2)
    ]
    expected = torch.stack([torch.stack(rows), *keys])
    assert torch.allclose(after.stack, expected, rtol=tolerance, atol=tolerance)
    hard = torch.stack([normed(row, 2 * own) for row in views.negatives[:, 0]])
    assert torch.allclose(after.negatives[:, 0], hard, rtol=tolerance, atol=tolerance)
    for weight in (views.stack, made.predictor[0].weight):
        slopes = [
            torch.autograd.grad(x.square().sum(), weight, retain_graph=True)[0]
            for x in (after.stack, expected)
        ]
        assert torch.allclose(*slopes, rtol=100 * tolerance, atol=100 * tolerance)


def test_the_slow_branch_follows_and_is_not_trained() -> None:
    made = Branches(decay=0.5).build(BuildContext(4))
    trained = {name for name, weight in made.named_parameters() if weight.requires_grad}
    assert trained == {
        name for name, _ in made.named_parameters() if not name.startswith("average.")
    }
    before = made.average[0].weight.clone()
    with torch.no_grad():
        made.projector[0].weight.add_(1)
    made.after_step(None)
    assert torch.allclose(made.average[0].weight, before + 0.5)


def test_equals_the_steps_by_hand() -> None:
    torch.manual_seed(0)
    made, given = Projector().build(BuildContext(4)).double(), scores(draw(2, 5, 4), hard=1).views
    found = made(given)

    def normalised(x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(dim=0)) / (x.var(dim=0, unbiased=False) + 1e-5).sqrt()

    rows = torch.cat([given.stack[0], given.stack[1], given.negatives[:, 0]])
    wide = torch.relu(normalised(rows @ made.net[0].weight.T))
    expected = normalised(wide @ made.net[3].weight.T)
    assert torch.allclose(torch.cat([*found.stack, found.negatives[:, 0]]), expected)
    assert found.stack.shape == given.stack.shape


def test_templates_leave_their_views() -> None:
    views = scores(stack := draw(5, 4, 3)).views
    expected = torch.stack([stack[0] - stack[3], stack[1] - stack[2], *stack[2:]])
    assert torch.equal(denoise(stack, [3, 2]), expected)
    assert torch.equal(Denoised([3, 2])(views).stack, expected)
    views = scores(draw(3, 4, 5)).views
    for templates in ([3], [1, 2, 2]):
        with pytest.raises(UserError, match=r"is not possible.*the views are 0 to 2"):
            Denoised(templates)(views)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_equals_the_loop(dtype: torch.dtype) -> None:
    positives, further = draw(2, 4, 3, dtype=dtype), draw(4, 2, 3, seed=1, dtype=dtype)
    found = mean_positive(positives, further)
    for view, rows in enumerate(positives):
        assert torch.allclose(found[view], (rows + further[:, 0] + further[:, 1]) / 3)
    assert torch.autograd.gradcheck(
        mean_positive, (draw(1, 3, 2).requires_grad_(), draw(3, 2, 2).requires_grad_())
    )


def test_further_texts_are_no_hard_negatives_any_more() -> None:
    views = scores(draw(2, 4, 3), hard=1).views
    after = MeanPositive()(views)
    assert torch.equal(after.stack[0], views.stack[0])
    assert torch.equal(after.stack[1], (views.stack[1] + views.negatives[:, 0]) / 2)
    assert after.negatives.shape == (4, 0, 3)
    assert torch.equal(MeanPositive()(after).stack, after.stack), "one positive is its own mean"
