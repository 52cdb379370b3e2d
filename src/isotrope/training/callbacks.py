"""What happens between the steps of a training: the log, what a person sees, selection, memory, and
Ctrl-C.
"""

import signal
from typing import Any

import torch
import torch.distributed as dist
from rich.console import Console
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from isotrope.console.progress import Bar
from isotrope.encoder.embed import freed_memory
from isotrope.store.files import RecordLog
from isotrope.training import checkpoints
from isotrope.training.processes import process_count

# What the trainer adds to an evaluation.
NOT_SCORES = {"eval_runtime", "eval_samples_per_second", "eval_steps_per_second", "eval_loss"}


class ProgressCallback(TrainerCallback):
    """Logs losses and evaluations, and shows them; keeps the best weights, and stops when patience
    ends.

    Its state is the log, so a resumed run continues exactly.
    """

    bar: Bar  # given before the training begins

    def __init__(self, console: Console, log: RecordLog, patience: int | None) -> None:
        self.console = console
        self.log = log
        self.patience = patience

    @property
    def is_exhausted(self) -> bool:
        """Whether early stopping has ended the run."""
        if self.patience is None:
            return False
        best = checkpoints.best_of(self.log.records)
        best_step = best["step"] if best else -1
        evaluated_steps = [record["step"] for record in self.log.records if "score" in record]
        steps_since = [step for step in evaluated_steps if step > best_step]
        return len(steps_since) >= self.patience

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self.bar.update(state.global_step, total=state.max_steps)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self.bar.update(state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float],
        **_: Any,
    ) -> None:
        if "loss" in logs:
            values = {key: value for key, value in logs.items() if key != "epoch"}
            self.log.add({"step": state.global_step, **values})
            self.bar.update(note=f"loss {logs['loss']:.4f}")

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float],
        **_: Any,
    ) -> None:
        """Log the evaluation, and ask for a checkpoint if it is the best so far."""
        record = {"step": state.global_step, **_scores_of(metrics)}
        if self._is_logged(record):
            return  # the trainer evaluates again after the last step of an epoch

        self.log.add(record)
        self._show(record)
        is_best = record == checkpoints.best_of(self.log.records)
        control.should_training_stop |= self.is_exhausted
        control.should_save |= control.should_training_stop or is_best

    def _is_logged(self, evaluation: dict[str, Any]) -> bool:
        for record in self.log.records:
            if record["step"] == evaluation["step"] and evaluation.keys() <= record.keys():
                return True
        return False

    def _show(self, evaluation: dict[str, Any]) -> None:
        words = []
        for name, value in evaluation.items():
            if name == "score":
                words.append(f"score {100 * value:.2f}")
            elif name != "step":
                words.append(f"{name} {value:.4f}")
        self.console.print(f"step {evaluation['step']}: {'  '.join(words)}")


def _scores_of(metrics: dict[str, float]) -> dict[str, float]:
    """What an evaluation measured, without the trainer's prefix and its own numbers."""
    scores = {}
    for name, value in metrics.items():
        if name.startswith("eval_") and name not in NOT_SCORES:
            scores[name.removeprefix("eval_")] = value
    return scores


class StopOnCtrlC(TrainerCallback):
    """The first Ctrl-C ends the run after the current step, with a checkpoint. The second ends it
    at once.
    """

    pressed = False  # in this process, or in another one

    def handle(self, *_: Any) -> None:
        """The handler of the signal."""
        self.pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Stop all processes at the same step."""
        self._agree(args.device)
        if self.pressed:
            control.should_training_stop = control.should_save = True

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Notice what came after the last step, during its evaluation."""
        self._agree(args.device)

    def _agree(self, device: torch.device) -> None:
        if process_count() > 1:
            pressed = torch.tensor(int(self.pressed), device=device)
            dist.all_reduce(pressed, op=dist.ReduceOp.MAX)
            self.pressed = bool(pressed)


class ReleaseMemory(TrainerCallback):
    """Gives freed memory back: what the steps leave, and all before the model is evaluated or
    saved.
    """

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """All of a step's memory but gradients and weights is free now."""
        if control.should_evaluate or control.should_save or control.should_training_stop:
            freed_memory.give_back()
        else:
            freed_memory.check()
