"""sentence-transformers' trainer: its resume is exact, and divergence is one clear message.

What it replaces of sentence-transformers and transformers, and why, is in docs/architecture.md.
"""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import (
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from torch import Tensor, nn
from torch.linalg import LinAlgError  # type: ignore[attr-defined]
from torch.nn.utils import clip_grad_norm_
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from isotrope.encoder.adapters import has_adapter, load_adapter
from isotrope.encoder.fast.products import fast_products
from isotrope.errors import UserError
from isotrope.objective.objective import Objective
from isotrope.preset.preset import Preset
from isotrope.store.files import claim
from isotrope.text.permutation import derive
from isotrope.text.sample import PermutedBatches
from isotrope.training.checkpoints import MARKED_AS, checkpoint_folder
from isotrope.training.processes import process_count, process_number

MOST_LOGGING_STEPS = 50
# On a GPU another process makes the next batches, in pinned memory. On a CPU it would slow down the
# step.
GPU_LOADING = {
    "dataloader_num_workers": 1,
    "dataloader_persistent_workers": True,
    "dataloader_prefetch_factor": 8,
    "dataloader_pin_memory": True,
    "accelerator_config": {"non_blocking": True},
}


class Trainer(SentenceTransformerTrainer):
    """Clips the objective together with the encoder, and ends with one line when training diverges.

    The dropout of a step depends only on (seed, step, process). It does not matter how often a run
    is evaluated, killed or resumed.
    """

    args: Any
    state: Any
    remedy = "lower the learning rate"  # against divergence

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """No card: it would encode examples at every save."""

    def get_batch_sampler(self, *args: Any, **kwargs: Any) -> Any:
        """The sampler, with a callback that sets its epoch. At a resume, the trainer's wrappers
        hide the epoch.
        """
        batches = super().get_batch_sampler(*args, **kwargs)
        self.add_callback(_SetEpoch(batches))
        return batches

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """One batch. Whether training diverges is only checked when it is logged, because on a GPU
        it costs time.
        """
        step_seed = derive(self.args.seed, self.loss.step)
        torch.manual_seed(derive(step_seed, process_number()))
        try:
            with fast_products():
                return super().training_step(*args, **kwargs)  # type: ignore[no-any-return]
        except (UserError, LinAlgError):  # a component got NaN
            self.refuse_divergence()
            raise

    def _clip_grad_norm(self, model: nn.Module) -> Tensor:
        self.accelerator.unscale_gradients()  # those of fp16
        return clip_grad_norm_(self.loss.parameters(), self.args.max_grad_norm)

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        # In fp16, steps that it would spoil are left out.
        if not math.isfinite(logs.get("loss", 0.0)):
            raise self._diverged("the loss is not finite")
        super().log(logs, *args, **kwargs)

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().evaluate(*args, **kwargs)
        except UserError as error:  # the sentences are the run's own: it is the model that is wrong
            raise self._diverged(error.problem) from error

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """Mark the folder as ours before it is filled."""
        self.refuse_divergence()
        if self.args.should_save:
            claim(checkpoint_folder(Path(self.args.output_dir), self.state.global_step), MARKED_AS)
        super()._save_checkpoint(*args, **kwargs)

    def _load_from_checkpoint(self, checkpoint_path: str) -> None:
        if has_adapter(self.model):  # its base is there already
            load_adapter(self.model, Path(checkpoint_path))
        else:
            super()._load_from_checkpoint(checkpoint_path)

    def refuse_divergence(self) -> None:
        if not are_finite(self.loss):
            raise self._diverged("some weights are not finite")

    def _diverged(self, reason: str) -> UserError:
        problem = f"training diverged before step {self.state.global_step + 1} ({reason})"
        return UserError(problem, self.remedy, code="diverged")


def are_finite(module: nn.Module) -> bool:
    """Whether all weights are."""
    return all(bool(weight.isfinite().all()) for weight in module.parameters())


class _SetEpoch(TrainerCallback):
    def __init__(self, batches: PermutedBatches) -> None:
        self.batches = batches

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self.batches.set_epoch(int(state.epoch or 0))


def training_arguments(
    preset: Preset,
    output: Path,
    *,
    seed: int,
    max_texts: int | None = None,
    rounds: Sequence[int] = (),
    trackers: Sequence[str] = (),
) -> SentenceTransformerTrainingArguments:
    """A run's settings as the trainer's arguments. With several processes, they connect here."""
    settings = preset.train
    has_gpu = torch.cuda.is_available()
    bf16 = settings.precision == "bf16"
    if settings.precision == "auto":
        bf16 = has_gpu and torch.cuda.is_bf16_supported()
    sampler = partial(PermutedBatches, limit=max_texts, world_size=process_count(), rounds=rounds)
    loading: dict[str, Any] = GPU_LOADING if has_gpu else {"dataloader_pin_memory": False}
    return SentenceTransformerTrainingArguments(
        output_dir=str(output),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.accumulation,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        warmup_steps=settings.warmup,
        lr_scheduler_type=settings.schedule,
        max_grad_norm=settings.max_grad_norm,
        bf16=bf16,
        fp16=settings.precision == "fp16",
        eval_strategy="steps",
        eval_steps=settings.eval_steps,
        save_strategy="steps",
        save_steps=settings.save_steps,
        save_total_limit=None,  # it deletes by the name; `SealCheckpoint` deletes what is ours
        logging_steps=min(MOST_LOGGING_STEPS, settings.eval_steps),
        batch_sampler=sampler,
        dataloader_drop_last=True,
        seed=seed,
        data_seed=seed,
        logging_nan_inf_filter=False,  # it asks the device twice a step, to hide a NaN
        use_cpu=not (has_gpu or torch.backends.mps.is_available()),
        report_to=list(trackers) or "none",
        disable_tqdm=True,
        activation_checkpointing=settings.gradient_checkpointing,
        **loading,
    )


WEIGHTS = "objective.safetensors"
ENCODER_PREFIX = "model."


class ObjectiveState(TrainerCallback):
    """Saves the objective's own weights beside every checkpoint, restores them at resume, and clips
    their gradients.

    sentence-transformers optimises a loss's own parameters (a head) but neither saves nor clips
    them. This callback does, in any script: ``SentenceTransformerTrainer(loss=objective,
    callbacks=[ObjectiveState(objective)])``. Gradients of the objective are clipped to
    ``args.max_grad_norm`` by their own norm. With isotrope's trainer this changes nothing: it has
    clipped encoder and objective together before.

    Raises:
        UserError: at resume, if the checkpoint holds no objective; when the trainer logs, if the
            objective is not the one that is trained, or some weights are not finite.
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Look for a divergence, since sentence-transformers' trainer logs a loss that is no number
        as 0.
        """
        if not self.objective.step:
            problem = "ObjectiveState has an objective that is not trained"
            remedy = "give the same objective to the trainer and to ObjectiveState"
            raise UserError(problem, remedy, code="another-objective")
        if not are_finite(self.objective):
            problem = (
                f"training diverged before step {state.global_step}: some weights are not finite"
            )
            raise UserError(problem, "lower the learning rate", code="diverged")

    def own_state(self) -> dict[str, Tensor]:
        """The objective's weights, buffers and step number, without the encoder."""
        state = {}
        for name, value in self.objective.state_dict().items():
            if not name.startswith(ENCODER_PREFIX):
                state[name] = value.contiguous()
        return state

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if state.is_world_process_zero:
            checkpoint = checkpoint_folder(Path(args.output_dir), state.global_step)
            save_file(self.own_state(), checkpoint / WEIGHTS)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if state.global_step:
            self.load(checkpoint_folder(Path(args.output_dir), state.global_step))

    def load(self, checkpoint: Path) -> None:
        """Restore the objective's own weights from a checkpoint."""
        path = checkpoint / WEIGHTS
        saved = load_file(path) if path.is_file() else {}
        missing = sorted(self.own_state().keys() - saved.keys())
        if missing:
            problem = f"{path} lacks {missing[0]}, which would start from random weights"
            remedy = "resume with ObjectiveState and the preset that the run began with"
            raise UserError(problem, remedy, code="incomplete-checkpoint")
        self.objective.load_state_dict(saved, strict=False)

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if not args.max_grad_norm:
            return
        weights = []
        for name, weight in self.objective.named_parameters():
            if not name.startswith(ENCODER_PREFIX):
                weights.append(weight)
        clip_grad_norm_(weights, args.max_grad_norm)

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self.objective.after_step()
