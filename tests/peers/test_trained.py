"""A second encoder, trained beside the student."""

from pathlib import Path

import torch

from conftest import sentences
from isotrope import Objective, component, load
from isotrope.terms.ct import CT


def test_both_encoders_learn_and_part(tiny_model: Path) -> None:
    model = load(tiny_model, "mean", dropout=0.1, device="cpu").train()
    objective = Objective(model, {"ct": CT()}, peers=[(component("peers", "trained"), [1])])
    (peer, _), *_ = objective.peers
    assert all(torch.equal(a, b) for a, b in zip(peer.parameters(), model.parameters(), strict=True))
    optimizer = torch.optim.SGD(objective.parameters(), lr=0.1)
    text, losses = [model.preprocess(sentences(8))], []
    for _ in range(8):
        torch.manual_seed(0)
        optimizer.zero_grad()
        loss = objective([dict(text[0])])["ct"]
        loss.backward()
        assert any(weight.grad is not None for weight in peer.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert any(not torch.equal(a, b) for a, b in zip(peer.parameters(), model.parameters(), strict=True))


def test_it_has_the_students_dropout_from_the_start(tiny_model: Path) -> None:
    """Also in a script whose trainer sets the student to training mode alone."""
    model = load(tiny_model, "mean", dropout=0.1, device="cpu").eval()
    objective = Objective(model, {"ct": CT()}, peers=[(component("peers", "trained"), [1])])
    text = model.preprocess(sentences(4))
    first, second = (objective.encode([dict(text)], None).stack for _ in range(2))
    assert torch.equal(first[0], second[0])
    assert not torch.equal(first[1], second[1])


def test_gradient_caching_gives_both_encoders_the_same_gradients(tiny_model: Path) -> None:
    found = []
    for size in (None, 3):
        model = load(tiny_model, "mean", dropout=0.0, device="cpu").train()
        peers = [(component("peers", kind), [number]) for number, kind in enumerate(("trained", "moving_average"), 1)]
        objective = Objective(model, {"ct": CT()}, peers=peers, passes=3, mini_batch_size=size)
        objective.step = 1  # the first step refuses equal views
        loss = objective([model.preprocess(sentences(8))])["ct"]
        loss.backward()
        found.append({name: p.grad for name, p in objective.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys()
    assert {name.split(".")[0] for name in found[0]} == {"model", "components"}
    for name, gradient in found[0].items():
        assert torch.allclose(gradient, found[1][name], atol=1e-6), name
