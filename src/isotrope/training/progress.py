"""The log of a run, what a person sees of it, and how Ctrl-C ends it with nothing lost."""

import signal
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from rich.console import Console
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from isotrope.console.progress import Bar, progress
from isotrope.encoder.embed import freed_memory
from isotrope.store.records import RecordLog


class Narrator(TrainerCallback):
    """Shows a progress bar with loss and dev score, prints a line for each evaluation, and logs the loss terms."""

    bar: Bar  # from the beginning of the training

    def __init__(self, console: Console, log: RecordLog) -> None:
        self.console, self.log = console, log
        self.notes: dict[str, str] = {}
        self._shown = ExitStack()

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Start the bar at the step where the run resumes."""
        shown = progress("trained", state.max_steps, self.console, unit="steps", hears=True)
        self.bar = self._shown.enter_context(shown)
        self.bar.update(state.global_step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.bar.update(state.global_step)

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: dict[str, float], **_: Any
    ) -> None:
        """Loss, its terms, gradient norm and learning rate, into the log."""
        if "loss" in logs:
            self.log.add({"step": state.global_step, **{key: value for key, value in logs.items() if key != "epoch"}})
            self._note(loss=f"{logs['loss']:.4f}")

    def evaluated(self, step: int, values: Mapping[str, float]) -> None:
        """Print the result of an evaluation."""
        text = "  ".join(
            f"{name} {100 * v:.2f}" if name == "score" else f"{name} {v:.4f}" for name, v in values.items()
        )
        if "score" in values:
            self._note(dev=f"{100 * values['score']:.2f}")
        self.console.print(f"step {step}: {text}")

    def close(self) -> None:
        """Remove the bar, also after an error."""
        self._shown.close()

    def _note(self, **values: str) -> None:
        self.notes |= values
        self.bar.update(note="  ".join(f"{name} {value}" for name, value in self.notes.items()))


class CtrlC(TrainerCallback):
    """The first Ctrl-C ends the run after the current step, with a checkpoint. The second ends it at once."""

    def __init__(self) -> None:
        self.heard = False  # by this process; another one may hear it first, and ask for all
        self.asked = False
        self.previous: Any = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Catch Ctrl-C, unless it is ignored, as under nohup. Only the main thread can."""
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            self.previous = signal.signal(signal.SIGINT, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.heard:
            raise KeyboardInterrupt
        self.heard = self.asked = True

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Stop all processes at the same step."""
        self._agree(args.device)
        if self.asked:
            control.should_training_stop = control.should_save = True

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Hear what came after the last step, during its evaluation."""
        self._agree(args.device)

    def _agree(self, device: torch.device) -> None:
        """Whether any process was asked."""
        if dist.is_available() and dist.is_initialized():
            asked = torch.tensor(int(self.asked), device=device)
            dist.all_reduce(asked, op=dist.ReduceOp.MAX)
            self.asked = bool(asked)

    def close(self) -> None:
        """Restore the earlier handler of Ctrl-C."""
        if self.previous is not None:
            signal.signal(signal.SIGINT, self.previous)
            self.previous = None


class GiveBack(TrainerCallback):
    """Gives freed memory back: what the steps leave, and all before the model is evaluated or saved."""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """All of a step's memory but gradients and weights is free now."""
        if control.should_evaluate or control.should_save or control.should_training_stop:
            freed_memory.give_back()
        else:
            freed_memory.check()
