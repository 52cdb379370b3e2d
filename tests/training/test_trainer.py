"""The trainer: clipping, evaluation, divergence; the objective in a checkpoint, in any script."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from transformers import TrainerControl, TrainerState, TrainingArguments

from conftest import sentences
from datasets import Dataset
from isotrope import Objective, load
from isotrope.errors import UserError
from isotrope.preset.preset import build_objective, read_preset
from isotrope.training.trainer import ObjectiveState
from small_runs import small_run

SHORT = {"dev": "none", "labels": "none", "sentences": 64}


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
    small_run(tiny_model, corpus_file, tmp_path / "run", "train.max_grad_norm=0.01", **SHORT)
    assert len(seen) == 4
    for whole, head in seen:
        assert whole == pytest.approx(0.01, rel=1e-3)
        assert 0 < head < whole


@pytest.mark.slow
def test_how_often_a_run_is_evaluated_changes_nothing(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    often = small_run(tiny_model, corpus_file, tmp_path / "often", "train.eval_steps=1", **SHORT)
    seldom = small_run(tiny_model, corpus_file, tmp_path / "seldom", "train.eval_steps=50", **SHORT)
    first, second = (load_file(run.folder / "model" / "model.safetensors") for run in (often, seldom))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    ("override", "named", "pairs"),
    [
        ("train.weight_decay=1e30", "lower train.weight_decay .now 1e.30., or lower train.learning_rate", True),
        ("terms.infonce.temperature=1e-40", "raise terms.infonce.temperature .now 1e-40., or lower", False),
    ],
)
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
    with pytest.raises(UserError, match="would start from random weights: resume with ObjectiveState"):
        again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))


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
