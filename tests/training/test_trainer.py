"""The trainer: clipping, accumulation, evaluation, divergence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from isotrope.errors import UserError
from isotrope.training.state import ObjectiveState
from small_runs import small_run


def test_encoder_and_head_are_clipped_by_one_norm(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the optimizer steps, all gradients together have the norm that was set, and the head has its share."""
    seen: list[tuple[float, float]] = []

    def look(self: ObjectiveState, *_: object, **__: object) -> None:
        named = [(name, p.grad.norm()) for name, p in self.objective.named_parameters() if p.grad is not None]
        whole = torch.stack([norm for _, norm in named]).norm().item()
        seen.append((whole, torch.stack([norm for name, norm in named if "linear" in name]).norm().item()))

    monkeypatch.setattr(ObjectiveState, "on_pre_optimizer_step", look)
    small_run(
        tiny_model, corpus_file, tmp_path / "run", "train.max_grad_norm=0.01", dev="none", labels="none", sentences=64
    )
    assert len(seen) == 4
    for whole, head in seen:
        assert whole == pytest.approx(0.01, rel=1e-3)
        assert 0 < head < whole


def test_how_often_a_run_is_evaluated_changes_nothing(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    often = small_run(tiny_model, corpus_file, tmp_path / "often", "train.eval_steps=3", dev="none", labels="none")
    seldom = small_run(tiny_model, corpus_file, tmp_path / "seldom", "train.eval_steps=50", dev="none", labels="none")
    first, second = (load_file(run.folder / "model" / "model.safetensors") for run in (often, seldom))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_accumulation_takes_several_batches_a_step(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    run = small_run(tiny_model, corpus_file, tmp_path / "run", "train.accumulation=4", dev="none", labels="none")
    assert run.record["selection"]["steps"] == 5, "320 sentences, 16 a batch, 4 batches a step"


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("train.weight_decay=1e30", "lower train.weight_decay .now 1e.30., or lower train.learning_rate"),
        ("terms.infonce.temperature=1e-40", "raise terms.infonce.temperature .now 1e-40., or lower"),
    ],
)
@pytest.mark.parametrize("pairs", [True, False])
def test_divergence_is_named_with_its_step_and_setting(
    override: str, named: str, pairs: bool, tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    """Not "row 0 is zero, leave it out", nor a traceback."""
    options = {"dev": str(pairs_file)} if pairs else {"dev": "none", "labels": "none"}
    more = [override, "train.max_grad_norm=1e30", "train.epochs=3"]
    with pytest.raises(UserError, match=rf"training diverged at step \d+ \(.*\): {named}"):
        small_run(tiny_model, corpus_file, tmp_path / "run", *more, **options)


def test_weights_that_are_not_finite_are_not_saved(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoints before the divergence stay, and a run with other settings can begin elsewhere."""

    def spoil(self: ObjectiveState, args: object, state: Any, control: object, **_: object) -> None:
        if state.global_step == 11:
            next(self.objective.model.parameters()).data[:] = float("nan")

    monkeypatch.setattr(ObjectiveState, "on_step_end", spoil)
    with pytest.raises(
        UserError, match=r"training diverged at step 12 .the loss is not finite.: lower train.learning_rate .now 0.001."
    ):
        small_run(tiny_model, corpus_file, tmp_path / "run", dev="none", labels="none")
    assert [path.name for path in (tmp_path / "run" / "checkpoints").glob("checkpoint-*")] == ["checkpoint-10"]
    assert not (tmp_path / "run" / "model").exists()
