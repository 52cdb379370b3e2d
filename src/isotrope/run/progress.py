"""What a person sees while a run goes on, and how Ctrl-C ends it with nothing lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from isotrope.run.log import MetricsLog


class Narrator(TrainerCallback):
    """A progress bar with loss and dev score (a terminal), or a line an evaluation (a file); logs the loss terms."""

    def __init__(self, console: Console, log: MetricsLog) -> None:
        self.console, self.log = console, log
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[said]}"),
        )
        times = (TimeElapsedColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, *times, console=console, transient=True, disable=not console.is_terminal)
        self.task = self.bar.add_task("training", total=None, said="")
        self.said: dict[str, str] = {}

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Start the bar where the run goes on."""
        self.bar.update(self.task, total=state.max_steps, completed=state.global_step)
        if self.console.is_terminal:
            self.bar.start()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Advance."""
        self.bar.update(self.task, completed=state.global_step)

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: dict[str, float], **_: Any
    ) -> None:
        """Loss, its terms, gradient norm and learning rate, into the log."""
        if "loss" in logs:
            self.log.add(state.global_step, **{key: value for key, value in logs.items() if key != "epoch"})
            self._say(loss=f"{logs['loss']:.4f}")

    def evaluated(self, step: int, values: Mapping[str, float]) -> None:
        """Tell of an evaluation."""
        text = "  ".join(
            f"{name} {100 * v:.2f}" if name == "score" else f"{name} {v:.4f}" for name, v in values.items()
        )
        if "score" in values:
            self._say(dev=f"{100 * values['score']:.2f}")
        self.console.print(f"step {step}: {text}", highlight=False, soft_wrap=True)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Take the bar away."""
        self.close()

    def close(self) -> None:
        """Leave the terminal as it was, also after an error."""
        self.bar.stop()

    def _say(self, **values: str) -> None:
        self.said.update(values)
        self.bar.update(self.task, said="  ".join(f"{name} {value}" for name, value in self.said.items()))


class CtrlC(TrainerCallback):
    """The first Ctrl-C ends the run after the present step, with a checkpoint; the second one at once."""

    def __init__(self) -> None:
        self.asked = False
        self.previous: Any = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Listen, where signals can be listened to: in the main thread."""
        if threading.current_thread() is threading.main_thread():
            self.previous = signal.signal(signal.SIGINT, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Stop all processes at the same step."""
        if dist.is_available() and dist.is_initialized():
            asked = torch.tensor(int(self.asked), device=args.device)
            dist.all_reduce(asked, op=dist.ReduceOp.MAX)
            self.asked = bool(asked)
        if self.asked:
            control.should_training_stop = control.should_save = True

    def close(self) -> None:
        """Give the signal back."""
        if self.previous is not None:
            signal.signal(signal.SIGINT, self.previous)
            self.previous = None
