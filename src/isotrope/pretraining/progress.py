"""What happens between steps: checkpoints with their curve, and a line that says how far the run is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from isotrope.pretraining.checkpoints import Plan, seal, tidy

Say = Callable[[str], None]


def _clock(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"


class Keeper(TrainerCallback):
    """Every few minutes: training loss, held-out loss and a checkpoint; one line in the curve file and one said.

    It stands behind the callback that hears Ctrl-C, whose stop is a reason for a checkpoint too.
    """

    def __init__(self, curve: Path, plan: Plan, step_tokens: int, every_minutes: float, say: Say) -> None:
        self.curve, self.plan, self.step_tokens, self.say = curve, plan, step_tokens, say
        self.every = every_minutes * 60  # seconds
        self._row: dict[str, float] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Forget the curve beyond the step that is resumed from."""
        rows = self.curve.read_text().splitlines() if self.curve.exists() else []
        self.curve.write_text("".join(f"{row}\n" for row in rows if json.loads(row)["step"] <= state.global_step))
        self._since, self._from = time.monotonic(), state.global_step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ask for the losses and a checkpoint when it is time for one."""
        step, seconds = state.global_step, time.monotonic() - self._since
        landmark = step in (self.plan.decay_start, self.plan.steps)
        if landmark or control.should_training_stop or seconds >= self.every:
            control.should_log = control.should_evaluate = control.should_save = True
            self._row = {
                "step": step,
                "tokens": step * self.step_tokens,
                "tokens_per_second": round((step - self._from) * self.step_tokens / seconds),
            }

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **kwargs: Any) -> None:
        """Note the mean training loss since the last line."""
        if "loss" in logs:
            self._row |= {"loss": round(logs["loss"], 4), "learning_rate": logs["learning_rate"]}

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **kwargs: Any) -> None:
        """Note the held-out loss."""
        self._row["held_out_loss"] = round(metrics["eval_loss"], 4)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Seal the checkpoint, delete older ones, write and say the line."""
        folder, row = Path(args.output_dir), self._row
        with self.curve.open("a") as file:
            file.write(json.dumps(row) + "\n")
        seal(folder / f"checkpoint-{state.global_step}")
        tidy(folder, self.plan.decay_start)
        left = (self.plan.steps - row["step"]) * self.step_tokens / max(row["tokens_per_second"], 1)
        self.say(
            f"{row['tokens'] / 1e6:.1f} M of {self.plan.steps * self.step_tokens / 1e6:.1f} M tokens, "
            f"loss {row['loss']:.3f}, held out {row['held_out_loss']:.3f}, "
            f"{row['tokens_per_second']:,} tokens/s, {_clock(left)} left"
        )
        self._since, self._from = time.monotonic(), state.global_step
