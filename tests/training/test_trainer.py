"""The trainer: clipping, evaluation, divergence; the objective in a checkpoint, in any script."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerControl, TrainerState, TrainingArguments

from conftest import sentences
from isotrope import Objective, load
from isotrope.errors import UserError
from isotrope.preset.preset import build_objective, read_preset
from isotrope.training.trainer import ObjectiveState
from small_runs import SHORT, Small, same_weights, script

TABLE = {"text": sentences(64)}
SAVING = {"save_strategy": "steps", "save_steps": 2}


def test_encoder_and_head_are_clipped_by_one_norm(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the optimizer steps, all gradients together have the norm that was set, and the head has its share."""
    seen: list[tuple[float, float]] = []

    def look(self: ObjectiveState, *_: object, **__: object) -> None:
        named = [(name, p.grad.norm()) for name, p in self.objective.named_parameters() if p.grad is not None]
        whole = torch.stack([norm for _, norm in named]).norm().item()
        seen.append((whole, torch.stack([norm for name, norm in named if "linear" in name]).norm().item()))

    monkeypatch.setattr(ObjectiveState, "on_pre_optimizer_step", look)
    small("run", "train.max_grad_norm=0.01", **SHORT)
    assert len(seen) == 4
    for whole, head in seen:
        assert whole == pytest.approx(0.01, rel=1e-3)
        assert 0 < head < whole


@pytest.mark.slow
def test_how_often_a_run_is_evaluated_changes_nothing(small: Small) -> None:
    often = small("often", "train.eval_steps=1", **SHORT)
    seldom = small("seldom", "train.eval_steps=50", **SHORT)
    assert same_weights(often.folder, seldom.folder)


@pytest.mark.parametrize(
    ("override", "pairs"), [("train.weight_decay=1e30", True), ("terms.infonce.temperature=1e-40", False)]
)
def test_divergence_is_named_with_its_step_and_setting(
    small: Small, override: str, pairs: bool, pairs_file: Path
) -> None:
    """Not "row 0 is zero, leave it out", nor a traceback."""
    options = {"dev": str(pairs_file)} if pairs else {"dev": "none", "labels": "none"}
    more = [override, "train.max_grad_norm=1e30", "train.epochs=3"]
    with pytest.raises(UserError, match=r"training diverged before step \d+ \(.*\): lower train.learning_rate"):
        small("run", *more, **options)


def test_weights_that_are_not_finite_are_not_saved(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoints before the divergence stay, and a run with other settings can begin elsewhere."""

    def spoil(self: ObjectiveState, args: object, state: Any, control: object, **_: object) -> None:
        if state.global_step == 11:
            next(self.objective.model.parameters()).data[:] = float("nan")

    monkeypatch.setattr(ObjectiveState, "on_step_end", spoil)
    with pytest.raises(UserError, match=r"training diverged before step 1\d .*: lower train.learning_rate .now 0.001."):
        small("run", dev="none", labels="none")
    assert [path.name for path in (tmp_path / "run" / "checkpoints").glob("checkpoint-*")] == ["checkpoint-10"]
    assert not (tmp_path / "run" / "model").exists()


def objective_of(tiny_model: Path, seed: int = 0) -> Objective:
    torch.manual_seed(seed)
    return build_objective(read_preset("simcse"), load(tiny_model, "mean", device="cpu"))


@pytest.mark.parametrize("extra", [[], ["positive", "negative_0"]])
def test_in_a_users_own_trainer_script(tiny_model: Path, tmp_path: Path, extra: list[str]) -> None:
    """The real trainer: terms logged one by one, the head saved and restored by our callback, and clipped."""
    whole, again = (objective_of(tiny_model, 5) for _ in range(2))
    table = {**TABLE, **dict.fromkeys(extra, sentences(64)[::-1])}
    options = {"max_steps": 6, "learning_rate": 1e-3, "lr_scheduler_type": "constant", **SAVING, "save_steps": 3}
    undisturbed = script(whole, tmp_path, table, [ObjectiveState(whole)], **options)
    undisturbed.train()
    assert any("infonce" in record for record in undisturbed.state.log_history)
    assert not torch.equal(again.views[0].linear.weight, whole.views[0].linear.weight)
    resumed = script(again, tmp_path, table, [ObjectiveState(again)], **options)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def test_resume_without_saved_head_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    objective = objective_of(tiny_model)
    script(objective, tmp_path, TABLE, max_steps=4, **SAVING).train()
    again = script(objective, tmp_path, TABLE, [ObjectiveState(objective)], max_steps=4)
    with pytest.raises(UserError, match="would start from random weights: resume with ObjectiveState"):
        again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))


@pytest.mark.parametrize(("longest", "expected"), [(0.01, 0.01), (1e9, None), (0.0, None)])
def test_the_heads_gradients_are_clipped_by_their_own_norm(
    tiny_model: Path, tmp_path: Path, longest: float, expected: float | None
) -> None:
    """The encoder's, which the trainer clips, stay as they are; 0 is no clipping."""
    objective = objective_of(tiny_model)
    for parameter in objective.parameters():
        parameter.grad = torch.ones_like(parameter)
    arguments = TrainingArguments(output_dir=str(tmp_path), report_to="none", max_grad_norm=longest)
    ObjectiveState(objective).on_pre_optimizer_step(arguments, TrainerState(), TrainerControl())
    head = torch.cat([p.grad.flatten() for p in objective.views[0].parameters() if p.grad is not None])
    assert head.norm().item() == pytest.approx(expected or len(head) ** 0.5, rel=1e-3)
    assert all(p.grad is not None and p.grad.eq(1).all() for p in objective.model.parameters())


def test_what_a_script_can_do_wrong(tiny_model: Path, tmp_path: Path) -> None:
    """Each went unnoticed: a head was lost, and sentence-transformers' trainer logs NaN as 0."""
    ours, other = (objective_of(tiny_model) for _ in range(2))
    for kept, rate, problem in (
        ([other], 5e-5, "not trained: give the same objective"),
        ([ours], 1e30, r"diverged before step 2.*lower the learning rate"),
    ):
        callbacks = [ObjectiveState(each) for each in kept]
        trainer = script(
            ours, tmp_path, TABLE, callbacks, max_steps=3, logging_steps=2, max_grad_norm=0.0, learning_rate=rate
        )
        with pytest.raises(UserError, match=problem):
            trainer.train()
