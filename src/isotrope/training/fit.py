"""The second step of a run: train the student in place, from the start or from the last whole checkpoint."""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch.distributed as dist
from sentence_transformers import SentenceTransformer
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from isotrope.console.progress import watch
from isotrope.encoder.adapters import merge
from isotrope.errors import Stopped
from isotrope.objective.objective import Objective
from isotrope.preset.head import head_layers, with_head
from isotrope.store.records import RecordLog
from isotrope.text.tokens import token_data
from isotrope.training.checkpoints import Sealing, checkpoint_step, last_checkpoint, records_of
from isotrope.training.prepare import TrainingPlan
from isotrope.training.processes import process_number
from isotrope.training.progress import CtrlC, GiveBack, Narrator
from isotrope.training.selection import DevScore, Selection, Signals, WithHead
from isotrope.training.sharded import ShardedTrainer, Spread
from isotrope.training.trainer import ObjectiveState, Trainer, against_divergence, training_arguments


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """The result of training. ``best_step`` and ``best_score`` are None if no dev pairs selected."""

    steps: int
    best_step: int | None
    best_score: float | None
    seconds: float


def fit(plan: TrainingPlan) -> TrainingOutcome:
    """Train ``plan.model``. At the end it has the best weights, or the last ones if no dev pairs select.

    With ``train.keep_head``, the head then stands behind it. A LoRA adapter becomes part of it, or is saved as such.
    """
    model, preset, folder = plan.model, plan.preset, plan.folder.checkpoints
    seed, sentences = plan.settings.seed, plan.settings.sentences
    rounds = plan.sample.corpus.rounds
    arguments = training_arguments(
        preset, folder, seed=seed, sentences=sentences, rounds=rounds, trackers=plan.trackers
    )
    start = _start(plan, folder)
    step = checkpoint_step(start) if start else 0
    log = RecordLog(plan.folder.metrics_file, writing=process_number() == 0)
    log.keep(records_of(start))  # what a killed run wrote after its last checkpoint is dropped
    narrator, ctrl_c = Narrator(plan.console, log), CtrlC()
    spread = Spread.of(plan.objective) if preset.train.fsdp and isinstance(plan.objective, Objective) else None
    whole = partial(with_head, plan.objective) if preset.train.keep_head else None
    kept = partial(_kept, plan, spread) if spread else whole
    selection = Selection(log, folder, preset.train.patience, narrator.evaluated, kept)
    with watch("making tokens", plan.console):
        sample, others = plan.sample, preset.encoder.positive_prompt
        data = token_data(model, sample.corpus, sample.rows, preset.train.max_length, plan.console, others)
    dataset, collator = data
    evaluator = DevScore(plan.selecting) if plan.selecting else Signals(plan.watched, preset.train.max_length)
    trainer = (partial(ShardedTrainer, spread) if spread else partial(Trainer, model=model))(
        args=arguments,
        train_dataset=dataset,
        loss=plan.objective,
        evaluator=WithHead(evaluator, whole) if whole else evaluator,
        data_collator=collator,
        callbacks=[ObjectiveState(plan.objective), selection, narrator, ctrl_c, GiveBack(), Sealing(log, selection)],
        remedy=against_divergence(preset),
    )
    for callback in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(callback)
    began = time.monotonic()
    try:
        if not selection.exhausted:
            trainer.train(resume_from_checkpoint=str(start) if start else None)
    finally:
        narrator.close()
        ctrl_c.close()
    if ctrl_c.asked:
        raise Stopped(f"stopped after step {trainer.state.global_step} of {trainer.state.max_steps}")
    trainer.refuse_divergence(weights=True)
    if spread:
        plan.objective.model = spread.end()
    if whole:
        model.extend(head_layers(plan.objective))
    best = selection.restore(model)
    if preset.encoder.lora is not None and preset.encoder.lora.save == "merged":
        merge(model)
    score = selection.best_score if best else None
    return TrainingOutcome(max(step, trainer.state.global_step), best, score, time.monotonic() - began)


def _kept(plan: TrainingPlan, spread: Spread) -> SentenceTransformer:
    """The model to keep, where the student's weights are spread."""
    student = spread.take()
    return with_head(plan.objective, student) if plan.preset.train.keep_head else student


def _start(plan: TrainingPlan, folder: Path) -> Path | None:
    """The checkpoint to resume from. The first process finds it and tells the others."""
    found = [None]
    if process_number() == 0:
        folder.mkdir(exist_ok=True)
        found = [last_checkpoint(folder, plan.console.print)]  # type: ignore[list-item]
    if dist.is_available() and dist.is_initialized():
        dist.broadcast_object_list(found, src=0)
    return found[0]
