"""A second encoder, trained beside the student."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from conftest import ROOT, sentences
from isotrope import Objective, component, load
from isotrope.terms.ct import CT
from small_runs import torchrun


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


@pytest.mark.slow
def test_two_processes_equal_one_of_twice_the_batch(tiny_model: Path, tmp_path: Path) -> None:
    """20 steps with a trained peer, a moving average and a queue; the two processes encode in parts."""
    text = sentences(640)
    table = tmp_path / "pairs.jsonl"
    lines = (json.dumps({"text": a, "positive": b}) for a, b in zip(text[:320], text[320:], strict=True))
    table.write_text("\n".join(lines))
    more = ["views.passes=3", "peers.trained.on=[1]", "peers.moving_average.on=[2]", "scores.key_queue.keys=2"]
    more += ["scores.key_queue.size=40", "scores.positives.views=[1]"]
    for name, processes, batch, part in (("two", 2, 8, 5), ("one", 1, 16, 48)):
        arguments = (ROOT / "tests" / "ranks.py", table, tiny_model, tmp_path / name, batch, 0.0, *more)
        torchrun(*map(str, arguments), f"train.mini_batch_size={part}", processes=processes)
    one, *two = (load_file(tmp_path / f"{name}.safetensors") for name in ("one-0", "two-0", "two-1"))
    words = "encoder.0.model.embeddings.word_embeddings.weight"
    began = load_file(tiny_model / "model.safetensors")["embeddings.word_embeddings.weight"]
    for number in (0, 1):
        assert (one[f"components.{number}.{words}"] - began).abs().max() > 1e-4, "both peers have moved"
    assert any(name.endswith(".rows") for name in one)
    for name, value in one.items():
        assert torch.equal(two[0][name], two[1][name]), name
        assert torch.allclose(value.float(), two[0][name].float(), atol=1e-5), name
