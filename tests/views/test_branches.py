"""MoCoSE's heads against their layers by hand."""

from __future__ import annotations

import pytest
import torch

from drawn import draw, scores
from isotrope.views.branches import Branches


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_equals_the_layers_by_hand(dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(0)
    made = Branches(4, slow=(1, 2)).to(dtype)
    with torch.no_grad():
        made.average[0].weight.mul_(2)
    views = scores(draw(3, 5, 4, dtype=dtype), hard=1).views
    after = made(views)

    def projected(rows: torch.Tensor, scale: float) -> torch.Tensor:
        lines = rows @ (scale * made.projector[0].weight).T
        centred = lines - lines.mean(dim=-1, keepdim=True)
        return centred / (centred.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()

    anchor = torch.tanh(projected(views.stack[0], 1) @ made.predictor[0].weight.T)
    expected = torch.stack([anchor, *projected(views.stack[1:], 2)])
    assert torch.allclose(after.stack, expected, rtol=tolerance, atol=tolerance)
    assert torch.allclose(after.negatives, projected(views.negatives, 2), rtol=tolerance, atol=tolerance)


def test_the_slow_branch_follows_and_is_not_trained() -> None:
    made = Branches(4, decay=0.5)
    trained = {name for name, weight in made.named_parameters() if weight.requires_grad}
    assert trained == {f"{part}.{name}" for part, name in [
        ("projector", "0.weight"), ("projector", "0.bias"), ("projector", "1.weight"), ("projector", "1.bias"),
        ("predictor", "0.weight"), ("predictor", "0.bias"),
    ]}  # fmt: skip
    before = made.average[0].weight.clone()
    with torch.no_grad():
        made.projector[0].weight.add_(1)
    made.after_step(None)
    assert torch.allclose(made.average[0].weight, before + 0.5)
