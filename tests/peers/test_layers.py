"""Frozen inner layers, a pass each, against transformers itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel

from conftest import ROOT, sentences
from isotrope import Objective, component, load
from isotrope.errors import UserError
from isotrope.peers.layers import spread
from isotrope.terms.infonce import InfoNCE
from small_runs import torchrun


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


@pytest.mark.slow
def test_two_processes_equal_one_of_twice_the_batch(tiny_model: Path, tmp_path: Path) -> None:
    """20 steps with frozen layers and the terms of SG-OPT, VaSCL, PCL and SNCSE; the two processes encode in parts."""
    text = sentences(640)
    table = tmp_path / "pairs.jsonl"
    lines = (json.dumps({"text": a, "positive": b}) for a, b in zip(text[:320], text[320:], strict=True))
    table.write_text("\n".join(lines))
    more = [
        "views.passes=4",
        "peers.layers.on=[2, 3]",
        "peers.layers.count=2",
        "terms.self_guided.size=8",
        "terms.self_guided.drift=0",
    ]
    more += ["terms.self_guided.temperature=0.3", "terms.vascl.neighbours=3", "terms.vascl.temperature=0.3"]
    more += ["terms.vascl.radius=1.0", "terms.group.views=[0, 1]", "terms.margin_band.view=1", "tokens.reverse.on=[1]"]
    more += ["terms.peer_lists.own=[0, 1]", "terms.peer_lists.peer=[2, 3]", "terms.peer_lists.temperature=0.3"]
    for name, processes, batch, part in (("two", 2, 8, 5), ("one", 1, 16, 64)):
        arguments = (ROOT / "tests" / "ranks.py", table, tiny_model, tmp_path / name, batch, 0.0, *more)
        torchrun(*map(str, arguments), f"train.mini_batch_size={part}", processes=processes)
    one, *two = (load_file(tmp_path / f"{name}.safetensors") for name in ("one-0", "two-0", "two-1"))
    began = load_file(tiny_model / "model.safetensors")["encoder.layer.0.attention.self.query.weight"]
    moved = one["model.0.model.encoder.layer.0.attention.self.query.weight"]
    assert (moved - began).abs().max() > 1e-4
    assert any("projector" in name for name in one)
    for name, value in one.items():
        assert torch.equal(two[0][name], two[1][name]), name
        assert torch.allclose(value.float(), two[0][name].float(), atol=1e-5), name
