"""The objective in a checkpoint: saved, restored and clipped in any script."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from transformers import TrainerControl, TrainerState, TrainingArguments

from conftest import sentences
from datasets import Dataset
from isotrope import Objective, load
from isotrope.errors import UserError
from isotrope.preset.preset import build_objective, read_preset
from isotrope.training.state import WEIGHTS, ObjectiveState


@pytest.fixture
def objective(tiny_model: Path) -> Objective:
    torch.manual_seed(0)
    return build_objective(read_preset("simcse"), load(tiny_model, "mean", device="cpu"))


def arguments(folder: Path, **more: float) -> TrainingArguments:
    return TrainingArguments(output_dir=str(folder), report_to="none", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("extra", [[], ["positive"], ["positive", "negative_0", "negative_1"]])
def test_in_a_users_own_trainer_script(tiny_model: Path, tmp_path: Path, extra: list[str]) -> None:
    """The real trainer: terms logged one by one, the head saved and restored by our callback, and clipped."""
    text = sentences(64)
    table = {"text": text, **dict.fromkeys(extra, text[::-1])}

    def trainer(steps: int) -> tuple[SentenceTransformerTrainer, Objective]:
        torch.manual_seed(5)
        model = load(tiny_model, "mean", device="cpu")
        objective = build_objective(read_preset("simcse"), model)
        arguments = SentenceTransformerTrainingArguments(
            output_dir=str(tmp_path / "out"), max_steps=steps, per_device_train_batch_size=8, save_steps=3,
            logging_steps=1, learning_rate=1e-3, lr_scheduler_type="constant", report_to="none", disable_tqdm=True,
        )  # fmt: skip
        return SentenceTransformerTrainer(
            model=model, args=arguments, train_dataset=Dataset.from_dict(table), loss=objective,
            callbacks=[ObjectiveState(objective)],
        ), objective  # fmt: skip

    undisturbed, whole = trainer(6)
    undisturbed.train()
    assert any("infonce" in record for record in undisturbed.state.log_history)
    resumed, again = trainer(6)
    head = again.views[0].linear.weight
    assert not torch.equal(head, whole.views[0].linear.weight)
    resumed.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-3"))
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def test_resume_without_saved_head_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    model = load(tiny_model, "mean", device="cpu")
    objective = build_objective(read_preset("simcse"), model)
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path), max_steps=4, save_steps=2, per_device_train_batch_size=8, report_to="none",
        disable_tqdm=True,
    )  # fmt: skip
    data = Dataset.from_dict({"text": sentences(64)})
    SentenceTransformerTrainer(model=model, args=arguments, train_dataset=data, loss=objective).train()
    again = SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=data, loss=objective, callbacks=[ObjectiveState(objective)]
    )
    with pytest.raises(UserError, match="head would start from random weights"):
        again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))


def test_the_encoder_is_not_saved_twice(objective: Objective, tmp_path: Path) -> None:
    (tmp_path / "checkpoint-3").mkdir()
    objective.step = 7
    state = TrainerState(global_step=3, is_world_process_zero=True)
    ObjectiveState(objective).on_save(arguments(tmp_path), state, TrainerControl())
    kept = load_file(tmp_path / "checkpoint-3" / WEIGHTS)
    assert not any(name.startswith("model.") for name in kept)
    assert torch.equal(kept["components.0.linear.weight"], objective.views[0].linear.weight)
    weight = objective.views[0].linear.weight.detach().clone()
    objective.step = 0
    torch.nn.init.zeros_(objective.views[0].linear.weight)
    ObjectiveState(objective).on_train_begin(arguments(tmp_path), state, TrainerControl())
    assert torch.equal(objective.views[0].linear.weight, weight)
    assert objective.step == 7


def test_other_processes_write_nothing(objective: Objective, tmp_path: Path) -> None:
    state = TrainerState(global_step=3, is_world_process_zero=False)
    ObjectiveState(objective).on_save(arguments(tmp_path), state, TrainerControl())
    assert not list(tmp_path.iterdir())


def test_the_head_of_another_preset_is_refused(objective: Objective, tmp_path: Path) -> None:
    (tmp_path / "checkpoint-3").mkdir()
    other = {name: value for name, value in ObjectiveState(objective).own_state().items() if "linear.bias" not in name}
    save_file(other, tmp_path / "checkpoint-3" / WEIGHTS)
    with pytest.raises(UserError, match=r"lacks components\.0\.linear\.bias: resume with the preset"):
        ObjectiveState(objective).on_train_begin(arguments(tmp_path), TrainerState(global_step=3), TrainerControl())


@pytest.mark.parametrize(("longest", "expected"), [(0.01, 0.01), (1e9, None), (0.0, None)])
def test_the_heads_gradients_are_clipped_by_their_own_norm(
    objective: Objective, tmp_path: Path, longest: float, expected: float | None
) -> None:
    """The encoder's, which the trainer clips, stay as they are; 0 is no clipping."""
    for parameter in objective.parameters():
        parameter.grad = torch.ones_like(parameter)
    state = ObjectiveState(objective)
    state.on_pre_optimizer_step(arguments(tmp_path, max_grad_norm=longest), TrainerState(), TrainerControl())
    head = torch.cat([p.grad.flatten() for p in objective.views[0].parameters() if p.grad is not None])
    assert head.norm().item() == pytest.approx(expected or len(head) ** 0.5, rel=1e-3)
    assert all(p.grad is not None and p.grad.eq(1).all() for p in objective.model.parameters())


def test_what_a_script_can_do_wrong(tiny_model: Path, tmp_path: Path) -> None:
    """Each went unnoticed: a head was lost, and sentence-transformers' trainer logs NaN as 0."""

    def train(kept: list[Objective], trained: Objective, rate: float = 1e-4) -> None:
        options = SentenceTransformerTrainingArguments(
            output_dir=str(tmp_path / "out"), max_steps=3, per_device_train_batch_size=8, save_strategy="no",
            logging_steps=2, learning_rate=rate, max_grad_norm=0.0, report_to="none", disable_tqdm=True,
        )  # fmt: skip
        SentenceTransformerTrainer(
            model=model, args=options, train_dataset=Dataset.from_dict({"text": sentences(64)}), loss=trained,
            callbacks=[ObjectiveState(each) for each in kept],
        ).train()  # fmt: skip

    model = load(tiny_model, "mean", device="cpu")
    ours, other = (build_objective(read_preset("simcse"), model) for _ in range(2))
    with pytest.raises(UserError, match="not trained: give the same objective"):
        train([other], ours)
    with pytest.raises(UserError, match="two ObjectiveState callbacks would write to one file"):
        train([ours, other], ours)
    with pytest.raises(UserError, match=r"diverged before step 2.*lower the learning rate"):
        train([ours], ours, rate=1e30)
