"""transformers' trainer, as pretraining uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import Trainer, TrainingArguments

from isotrope.errors import UserError
from isotrope.pretraining.recipe import Recipe
from isotrope.pretraining.schedule import Schedule
from isotrope.training.checkpoints import MarkedCheckpoints


class PretrainingTrainer(MarkedCheckpoints, Trainer):
    """Marks its checkpoints, and stops when the loss is not finite.

    Raises:
        UserError: while training, at the step that diverged.
    """

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """One step, whose loss is checked."""
        loss: Tensor = super().training_step(*args, **kwargs)
        if not torch.isfinite(loss):
            raise diverged(self.state.global_step + 1, self.args.learning_rate)
        return loss


def diverged(step: int, rate: float) -> UserError:
    """The one line for a loss that is not finite."""
    remedy = f"lower the recipe's learning_rate (now {rate:g}), and choose another folder"
    return UserError(f"training diverged at step {step}: the loss is not finite", remedy)


def pretraining_arguments(checkpoints: Path, recipe: Recipe, schedule: Schedule, seed: int, compile: bool) -> Any:
    """The trainer's arguments; losses and checkpoints are asked for by the Keeper."""
    gpu = torch.cuda.is_available()
    return TrainingArguments(
        output_dir=str(checkpoints),
        max_steps=schedule.steps,
        per_device_train_batch_size=recipe.batch,
        per_device_eval_batch_size=recipe.batch,
        train_sampling_strategy="sequential",
        learning_rate=recipe.learning_rate,
        lr_scheduler_type="warmup_stable_decay",
        warmup_steps=min(recipe.warmup_steps, schedule.decay_start),
        lr_scheduler_kwargs={"num_decay_steps": schedule.steps - schedule.decay_start, "decay_type": "1-sqrt"},
        weight_decay=recipe.weight_decay,
        adam_beta2=recipe.beta2,
        max_grad_norm=recipe.clip,
        bf16=torch.cuda.is_bf16_supported() if gpu else torch.cpu._is_avx512_bf16_supported(),
        torch_compile=compile,
        use_cpu=not gpu,
        seed=seed,
        eval_strategy="no",
        save_strategy="no",
        logging_strategy="no",
        logging_nan_inf_filter=False,  # it hides a NaN
        prediction_loss_only=True,
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to=[],
    )
