"""SimCSE's head: a linear layer and a tanh, on anchors, positives and hard negatives alike."""

from __future__ import annotations

import pytest
import torch

from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.types import Batch, Views
from isotrope.views.mlp import MLP

V, N, H, D = 3, 5, 2, 6


def views(count: int = N, dim: int = D) -> Views:
    drawn = torch.Generator().manual_seed(1)
    stack, negatives = torch.randn(V, count, dim, generator=drawn), torch.randn(count, H, dim, generator=drawn)
    return Views(Batch(torch.arange(count), torch.Generator()), stack, negatives, {"guide": torch.eye(count)})


def test_it_is_a_matrix_product_and_a_tanh_on_every_embedding() -> None:
    head, given = MLP(D, std=0.5), views()
    weight, bias = head.linear.weight, torch.nn.init.normal_(head.linear.bias)
    after = head(given)
    for v in range(V):
        for i in range(N):
            assert torch.allclose(after.stack[v, i], torch.tanh(weight @ given.stack[v, i] + bias), atol=1e-6)
    for i in range(N):
        for h in range(H):
            assert torch.allclose(after.negatives[i, h], torch.tanh(weight @ given.negatives[i, h] + bias), atol=1e-6)
    assert after.batch is given.batch
    assert after.teachers is given.teachers, "a teacher has its own space"


def test_without_hard_negatives_there_are_none_after_it() -> None:
    given = views()
    given = Views(given.batch, given.stack, given.stack.new_zeros(N, 0, D), {})
    assert MLP(D)(given).negatives.shape == (N, 0, D)


@pytest.mark.parametrize("std", [0.02, 0.1])
def test_it_starts_as_every_new_layer_of_bert_does(std: float) -> None:
    """256² weights: their standard deviation is known to 0.3 %."""
    torch.manual_seed(0)
    head = MLP(256, std)
    assert head.linear.weight.std().item() == pytest.approx(std, rel=0.02)
    assert abs(head.linear.weight.mean().item()) < 5 * std / 256
    assert not head.linear.bias.any()


def test_at_the_start_short_embeddings_have_no_common_direction() -> None:
    """With torch's own bias all sentences would be alike: the mean cosine would be near 1."""
    torch.manual_seed(0)
    head = MLP(64)
    rows = torch.nn.functional.normalize(head(views(100, 64)).stack[0] * 1e-3, dim=-1)
    assert ((rows @ rows.T).sum() - 100) / (100 * 99) < 0.1


def test_the_width_is_the_students_unless_it_was_given() -> None:
    made = MLP(std=0.3).build(BuildContext(width=D))
    assert made.linear.weight.shape == (D, D)
    assert made.std == 0.3
    given = MLP(4)
    assert given.build(BuildContext(width=D)) is given, "its weights may be a user's own"
    with pytest.raises(UserError, match="needs the width"):
        MLP().build(BuildContext())
