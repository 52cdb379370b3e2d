"""Self-guided contrast against loops, the projector, and the drift of the weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from conftest import sentences
from drawn import draw, scores
from isotrope import component, load
from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.preset.preset import build_objective, read_preset
from isotrope.terms.self_guided import SelfGuided, self_guided
from oracle import losses as oracle


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("count", [1, 3])
def test_equals_the_loops(count: int, dtype: torch.dtype, tolerance: float) -> None:
    anchor, layers = draw(5, 4, dtype=dtype), draw(count, 5, 4, seed=1, dtype=dtype)
    assert self_guided(anchor, layers, 0.2).item() == pytest.approx(
        oracle.self_guided(anchor, layers, 0.2), rel=tolerance
    )


def test_gradient() -> None:
    anchor, layers = draw(4, 3).requires_grad_(), draw(2, 4, 3, seed=1)
    assert torch.autograd.gradcheck(lambda given: self_guided(given, layers, 0.3), anchor)


def test_it_compares_what_the_projector_gives() -> None:
    made: SelfGuided = component("terms", "self_guided", size=7, weight=0.5).build(BuildContext(width=4))
    stack = draw(3, 5, 4, dtype=torch.float32)
    first, second = made.projector[0], made.projector[2]
    inner = torch.nn.functional.gelu(stack @ first.weight.T + first.bias)
    outer = torch.nn.functional.gelu(inner @ second.weight.T + second.bias)
    assert outer.shape == (3, 5, 7)
    assert made(scores(stack)).item() == pytest.approx(0.5 * oracle.self_guided(outer[0], outer[1:], 0.01), rel=1e-4)


def test_the_preset_holds_weights_near_their_start_and_embeddings_fixed(tiny_model: Path) -> None:
    preset = read_preset(
        "sg-opt", ["terms.self_guided.size=8", "peers.layers.count=3", "views.passes=4", "peers.layers.on=[1, 2, 3]"]
    )
    model = load(tiny_model, "cls", dropout=0.0, device="cpu").train()
    objective = build_objective(preset, model)
    (term,) = objective.terms.values()
    frozen = {name for name, weight in model.named_parameters() if not weight.requires_grad}
    assert frozen == {name for name, _ in model.named_parameters() if ".embeddings." in name}
    assert not any("start" in name for name in objective.state_dict()), "the backbone has them"
    batch = model.preprocess(sentences(6))
    before = objective([dict(batch)])["self_guided"].item()
    weight = next(weight for weight in model.parameters() if weight.requires_grad)
    with torch.no_grad():
        weight[0, 0] += 2.0
    assert term.moved().item() == pytest.approx(0.4, rel=1e-5)
    loss = objective([dict(batch)])["self_guided"]
    term.moved.weight = 0.0
    assert (loss - objective([dict(batch)])["self_guided"]).item() == pytest.approx(0.4, rel=1e-3)
    loss.backward()
    assert weight.grad is not None
    assert before > 0


def test_several_processes_are_refused_for_the_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with pytest.raises(UserError, match=r"drift = 0.1 reads the weights .* 2 processes .* or set drift = 0"):
        component("terms", "self_guided", size=4).build(BuildContext(width=4))
    component("terms", "self_guided", size=4, drift=0).build(BuildContext(width=4))
