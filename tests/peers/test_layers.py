"""Frozen inner layers, a pass each, against transformers itself."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModel

from conftest import sentences
from isotrope import Objective, component, load
from isotrope.errors import UserError
from isotrope.peers.layers import spread
from isotrope.terms.infonce import InfoNCE


def objective(folder: Path, count: int = 3, on: tuple[int, ...] = (1, 2, 3), **options: object) -> Objective:
    model = load(folder, "cls", dropout=0.1, device="cpu").train()
    peers = [(component("peers", "layers", count=count), on)]
    return Objective(model, {"infonce": InfoNCE()}, peers=peers, passes=4, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [None, 4])
def test_views_are_the_means_of_the_layers_before_training(tiny_model: Path, size: int | None) -> None:
    made = objective(tiny_model, mini_batch_size=size)
    with torch.no_grad():
        for weight in made.model.parameters():
            weight.mul_(1.1)  # the student moves on, the layers stay
    batch = made.model.preprocess(sentences(5))
    stack = made.encode([dict(batch)], None).stack
    plain = AutoModel.from_pretrained(tiny_model).eval()
    states, mask = plain(**batch, output_hidden_states=True).hidden_states, batch["attention_mask"][..., None]
    for layer, view in zip(states, stack[1:], strict=True):
        assert torch.allclose(view, (layer * mask).sum(dim=1) / mask.sum(dim=1), atol=1e-5)
    assert not torch.allclose(stack[0], states[-1][:, 0], atol=1e-2)
    stack.sum().backward()
    (peer, _), *_ = made.peers
    assert all(weight.grad is None for weight in peer.parameters())


def test_layers_are_spread_evenly() -> None:
    assert [spread(13, count) for count in (1, 2, 5)] == [[12], [0, 12], [0, 3, 6, 9, 12]]
    assert spread(5, 5) == [0, 1, 2, 3, 4]


def test_what_does_not_fit_is_refused(tiny_model: Path) -> None:
    with pytest.raises(UserError, match=r"count = 4, and the model has 3 layers .* choose at most 3"):
        objective(tiny_model, count=4)
    made = objective(tiny_model, on=(1, 2))
    batch = made.model.preprocess(sentences(6))
    with pytest.raises(UserError, match=r"are not 3 copies of one text: name 3 passes in peers.layers.on"):
        made.encode([dict(batch)], None)
