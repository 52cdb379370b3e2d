"""The second step of a run: train the student in place, from the start or from the last whole checkpoint."""

import time
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed as dist

from isotrope.console.progress import progress, watch
from isotrope.encoder.adapters import merge_adapter
from isotrope.store.records import RecordLog
from isotrope.text.tokens import token_data
from isotrope.training import checkpoints
from isotrope.training.callbacks import DevScore, GiveBack, Narrator, Signals, WithHead, head_layers, train_from
from isotrope.training.checkpoints import best_of, checkpoint_folder
from isotrope.training.prepare import TrainingPlan
from isotrope.training.processes import process_count, process_number
from isotrope.training.trainer import ObjectiveState, ShardedTrainer, Trainer, training_arguments


def fit(plan: TrainingPlan) -> dict[str, Any]:
    """Train ``plan.model``. At the end it has the best weights, or the last ones if no dev pairs select.

    With ``train.keep_head``, the head then stands behind it. A LoRA adapter becomes part of it, or is saved as such.

    Returns:
        How it went: steps, seconds, and the best step with its score, None if no dev pairs selected.
    """
    model, preset, folder = plan.model, plan.preset, plan.folder.checkpoints
    arguments = training_arguments(
        preset, folder, seed=plan.seed, sentences=plan.sentences, rounds=plan.corpus.rounds, trackers=plan.log_to
    )
    found: list[Path | None] = [None]
    if process_number() == 0:  # the first process finds the checkpoint to resume from, and tells the others
        folder.mkdir(exist_ok=True)
        found = [checkpoints.last_checkpoint(folder, plan.console.print)]
    if process_count() > 1:
        dist.broadcast_object_list(found, src=0)
    (start,) = found
    log = RecordLog(plan.folder.metrics_file, writing=process_number() == 0)
    log.keep(checkpoints.records_of(start))  # what a killed run wrote after its last checkpoint is dropped
    narrator, state = Narrator(plan.console, log, preset.train.patience), ObjectiveState(plan.objective)
    with watch("making tokens", plan.console):
        length, others = preset.train.max_length, preset.encoder.positive_prompt
        dataset, collator = token_data(model, plan.corpus, plan.sample.rows, length, plan.console, others)
    evaluator = DevScore(plan.selecting) if plan.selecting else Signals(plan.watched, length)
    trainer = (ShardedTrainer if preset.train.fsdp else partial(Trainer, model=model))(
        args=arguments,
        train_dataset=dataset,
        loss=plan.objective,
        evaluator=WithHead(evaluator, plan.objective) if preset.train.keep_head else evaluator,
        data_collator=collator,
        callbacks=[state, narrator, GiveBack(), checkpoints.Sealing(log)],
    )
    trainer.remedy = f"lower train.learning_rate (now {preset.train.learning_rate:g}), or undo what you set besides"
    began = time.monotonic()
    if not narrator.exhausted:
        with progress("trained", None, plan.console, unit="steps") as narrator.bar:
            train_from(trainer, start)
    trainer.refuse_divergence()
    if best := best_of(log.records):
        trainer._load_from_checkpoint(str(checkpoint_folder(folder, best["step"])))
        state.load(checkpoint_folder(folder, best["step"]))
    if isinstance(trainer, ShardedTrainer):
        plan.objective.model = trainer.collect().to(trainer.student.device)
    if preset.train.keep_head:
        model.extend(head_layers(plan.objective))
    if preset.encoder.lora is not None and preset.encoder.lora.save == "merged":
        merge_adapter(model.float())  # in half precision, the rounding would hide most of what was learnt
    return {
        "steps": max(checkpoints.checkpoint_step(start) if start else 0, trainer.state.global_step),
        "best_step": best and best["step"],
        "best_score": best and best["score"],
        "seconds": time.monotonic() - began,
    }
