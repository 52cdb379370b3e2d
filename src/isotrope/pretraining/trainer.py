"""transformers' trainer, as pretraining uses it, and what happens between its steps."""

import math
import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor
from transformers import Trainer, TrainerCallback, TrainingArguments

from isotrope.console.progress import Bar
from isotrope.errors import UserError
from isotrope.pretraining.recipe import Recipe, Schedule
from isotrope.store.records import RecordLog
from isotrope.training.checkpoints import MarkedCheckpoints, checkpoint_folder, keep_only, seal, whole_checkpoints


class PretrainingTrainer(MarkedCheckpoints, Trainer):
    """Marks its checkpoints, and stops when the loss is not finite."""

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """One step, whose loss is checked."""
        loss: Tensor = super().training_step(*args, **kwargs)
        refuse_divergence(loss.item(), self.state.global_step + 1, self.args.learning_rate)
        return loss


def refuse_divergence(loss: float, step: int, rate: float) -> None:
    """Raise UserError if a loss is not finite."""
    if not math.isfinite(loss):
        remedy = f"lower the recipe's learning_rate (now {rate:g}), and choose another folder"
        raise UserError(f"training diverged at step {step}: the loss is not finite", remedy)


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


class Keeper(TrainerCallback):
    """Every so many minutes: training loss, held-out loss and a checkpoint; a line in the curve file and one shown.

    It comes after the callback that hears Ctrl-C, whose stop is a reason for a checkpoint too.
    """

    def __init__(
        self, curve: Path, schedule: Schedule, step_tokens: int, minutes: float, console: Console, bar: Bar
    ) -> None:
        self.curve, self.schedule, self.step_tokens, self.minutes = RecordLog(curve), schedule, step_tokens, minutes
        self.console, self.bar = console, bar
        self._row: dict[str, float] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Forget the curve beyond the step that is resumed from."""
        self.curve.keep([row for row in self.curve.records if row["step"] <= state.global_step])
        self.bar.update(state.global_step * self.step_tokens)
        self._since, self._from = time.monotonic(), state.global_step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Ask for the losses and a checkpoint when it is time for one."""
        step, seconds = state.global_step, time.monotonic() - self._since
        self.bar.update(step * self.step_tokens)
        landmark = step in (self.schedule.decay_start, self.schedule.steps)
        if landmark or control.should_training_stop or seconds >= 60 * self.minutes:
            control.should_log = control.should_evaluate = control.should_save = True
            self._row = {
                "step": step,
                "tokens": step * self.step_tokens,
                "seconds": round(seconds, 3),  # since the last line
                "tokens_per_second": round((step - self._from) * self.step_tokens / seconds),
            }

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **_: Any) -> None:
        """Note the mean training loss since the last line."""
        if "loss" in logs:
            self._row |= {"loss": round(logs["loss"], 4), "learning_rate": logs["learning_rate"]}

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **_: Any) -> None:
        """Note the held-out loss. If it is not finite, no checkpoint of such weights is written."""
        refuse_divergence(metrics["eval_loss"], state.global_step, args.learning_rate)
        self._row["held_out_loss"] = round(metrics["eval_loss"], 4)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Write the curve's line, seal the checkpoint, delete older ones, show the line."""
        folder, row = Path(args.output_dir), self._row
        self.curve.add(row)
        seal(checkpoint_folder(folder, state.global_step))
        keep_only(folder, self.schedule.kept(whole_checkpoints(folder)))
        self.console.print(
            f"{row['tokens'] / 1e6:.1f} M of {self.schedule.steps * self.step_tokens / 1e6:.1f} M tokens, "
            f"loss {row['loss']:.3f}, held out {row['held_out_loss']:.3f}, {row['tokens_per_second']:,} tokens/s"
        )
        self.bar.update(note=f"held out {row['held_out_loss']:.3f}")
        self._since, self._from = time.monotonic(), state.global_step
