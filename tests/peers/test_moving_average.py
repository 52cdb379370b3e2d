"""A moving average of the student, in a pass of its own."""

from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer

from conftest import sentences
from isotrope import Objective, component, load
from isotrope.terms.infonce import InfoNCE


def made(folder: Path, drop: float = 0.0, **options: object) -> tuple[Objective, SentenceTransformer]:
    model = load(folder, "mean", dropout=drop, device="cpu").train()
    return Objective(
        model, {"infonce": InfoNCE()}, peers=[(component("peers", "moving_average", **options), [1])]
    ), model


def test_it_follows_the_student_and_gets_no_gradient(tiny_model: Path) -> None:
    objective, model = made(tiny_model, decay=0.75)
    (peer, _), *_ = objective.peers
    start = {name: value.clone() for name, value in peer.encoder.state_dict().items()}
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.linspace(-1, 1, weight.numel()).view_as(weight))
    columns = [model.preprocess(sentences(5))]
    objective.encode(columns, None).stack.sum().backward()
    assert all(weight.grad is None for weight in peer.parameters())
    assert any(weight.grad is not None for weight in model.parameters())
    objective.after_step()
    student = model.state_dict()
    for name, value in peer.encoder.state_dict().items():
        expected = 0.75 * start[name] + 0.25 * student[name] if value.is_floating_point() else value
        assert torch.allclose(value, expected, atol=1e-6), name


def test_it_has_dropout_only_if_asked(tiny_model: Path) -> None:
    for dropout in (False, True):
        objective, model = made(tiny_model, 0.1, dropout=dropout)
        objective.eval().train()
        columns = [model.preprocess(sentences(5))]
        first, second = (objective.encode([dict(columns[0])], None).stack[1] for _ in range(2))
        assert torch.equal(first, second) is not dropout
