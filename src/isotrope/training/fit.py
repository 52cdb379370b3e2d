"""The second step of a run: train the student in place, from the start or from the last whole
checkpoint.
"""

import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import torch.distributed as dist
from sentence_transformers import SentenceTransformerTrainingArguments
from sentence_transformers.base.evaluation import BaseEvaluator
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback

from isotrope.console.progress import progress, watch
from isotrope.encoder.adapters import merge_adapter
from isotrope.errors import Stopped
from isotrope.store.files import RecordLog
from isotrope.text.tokens import token_data
from isotrope.training.callbacks import ProgressCallback, ReleaseMemory, StopOnCtrlC
from isotrope.training.checkpoints import (
    SealCheckpoint,
    best_of,
    checkpoint_folder,
    checkpoint_step,
    last_checkpoint,
    records_of,
)
from isotrope.training.evaluators import DevScore, Signals, WithHead, head_layers
from isotrope.training.prepare import TrainingPlan
from isotrope.training.processes import process_count, process_number
from isotrope.training.trainer import ObjectiveState, Trainer, training_arguments


@dataclass(frozen=True)
class FitOutcome:
    """How a training went."""

    steps: int
    best_step: int | None  # None if no dev pairs selected
    best_score: float | None
    seconds: float  # since it was last started


def fit(plan: TrainingPlan) -> FitOutcome:
    """Train ``plan.model``. At the end it has the best weights, or the last ones if no dev pairs
    select.

    With ``train.keep_head``, the head is then part of it. A LoRA adapter becomes part of it, or is
    saved as such.
    """
    arguments = training_arguments(
        plan.preset,
        plan.folder.checkpoints,
        seed=plan.seed,
        max_texts=plan.max_texts,
        rounds=plan.corpus.rounds,
        trackers=plan.log_to,
    )  # with several processes, they connect here
    start = _resume_from(plan)
    log = RecordLog(plan.folder.metrics_file, writing=process_number() == 0)
    log.keep(records_of(start))  # what a killed run wrote after its last checkpoint is dropped
    state = ObjectiveState(plan.objective)
    reporter = ProgressCallback(plan.console, log, plan.preset.train.patience)
    callbacks = [state, reporter, ReleaseMemory(), SealCheckpoint(log)]
    trainer = _build_trainer(plan, arguments, callbacks)

    began = time.monotonic()
    if not reporter.is_exhausted:
        with progress("trained", None, plan.console, unit="steps") as reporter.bar:
            train_from(trainer, start)
    trainer.refuse_divergence()

    best = best_of(log.records)
    if best:
        checkpoint = checkpoint_folder(plan.folder.checkpoints, best["step"])
        trainer._load_from_checkpoint(str(checkpoint))
        state.load(checkpoint)
    _complete_model(plan)
    return FitOutcome(
        steps=max(checkpoint_step(start), trainer.state.global_step),
        best_step=best["step"] if best else None,
        best_score=best["score"] if best else None,
        seconds=time.monotonic() - began,
    )


def _resume_from(plan: TrainingPlan) -> Path | None:
    """The checkpoint to resume from. The first process finds it, and tells the others."""
    folder = plan.folder.checkpoints
    checkpoint: list[Path | None] = [None]
    if process_number() == 0:
        folder.mkdir(exist_ok=True)
        checkpoint = [last_checkpoint(folder, plan.console.print)]
    if process_count() > 1:
        dist.broadcast_object_list(checkpoint, src=0)
    return checkpoint[0]


def _build_trainer(
    plan: TrainingPlan,
    arguments: SentenceTransformerTrainingArguments,
    callbacks: list[TrainerCallback],
) -> Trainer:
    settings = plan.preset.train
    with watch("making tokens", plan.console):
        dataset, collator = token_data(
            plan.model,
            plan.corpus,
            plan.sample.rows,
            settings.max_length,
            plan.console,
            plan.preset.encoder.positive_prompt,
        )
    evaluator: BaseEvaluator = Signals(plan.watched, settings.max_length)
    if plan.selecting:
        evaluator = DevScore(plan.selecting)
    if settings.keep_head:
        evaluator = WithHead(evaluator, plan.objective)
    trainer = Trainer(
        model=plan.model,
        args=arguments,
        train_dataset=dataset,
        loss=plan.objective,
        evaluator=evaluator,
        data_collator=collator,
        callbacks=callbacks,
    )
    rate = f"lower train.learning_rate (now {settings.learning_rate:g})"
    trainer.remedy = f"{rate}, or undo what you set besides"
    return trainer


def _complete_model(plan: TrainingPlan) -> None:
    """Make the head and the adapter part of the model, if the preset says so."""
    if plan.preset.train.keep_head:
        plan.model.extend(head_layers(plan.objective))
    lora = plan.preset.encoder.lora
    if lora is not None and lora.save == "merged":
        # In half precision, the rounding would hide most of what was learnt.
        merge_adapter(plan.model.float())


def train_from(trainer: Trainer, start: Path | None) -> None:
    """Train to the end, from a checkpoint or from the beginning.

    Raises:
        Stopped: Ctrl-C; there is a checkpoint to go on from.
    """
    ctrl_c = StopOnCtrlC()
    handler = signal.getsignal(signal.SIGINT)
    trainer.callback_handler.callbacks.insert(0, ctrl_c)  # the others see what it asks for
    trainer.remove_callback(PrinterCallback)
    # Only the main thread can catch it, and under nohup it is ignored.
    is_main_thread = threading.current_thread() is threading.main_thread()
    catches = is_main_thread and handler != signal.SIG_IGN
    if catches:
        signal.signal(signal.SIGINT, ctrl_c.handle)
    try:
        trainer.train(resume_from_checkpoint=str(start) if start else None)
    finally:
        if catches:
            signal.signal(signal.SIGINT, handler)
    if ctrl_c.pressed:
        state = trainer.state
        raise Stopped(f"stopped after step {state.global_step} of {state.max_steps}")
