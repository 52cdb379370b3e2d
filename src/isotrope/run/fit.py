"""Train, whole: preset and text in, a better model and the truth about it out. The one file that knows ST's trainer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from torch import Tensor, nn
from transformers import TrainerCallback, TrainerState
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from isotrope.errors import Stopped
from isotrope.objective.preset import Preset, build_objective
from isotrope.run.log import MetricsLog
from isotrope.run.processes import process_count, process_number
from isotrope.run.progress import CtrlC, Narrator
from isotrope.run.selection import DevScore, Selection, Signals
from isotrope.run.state import ObjectiveState, last_whole_checkpoint
from isotrope.text.batches import PermutedBatches, trainer_batches
from isotrope.text.corpus import Corpus
from isotrope.text.permutation import derive
from isotrope.text.sample import RowIds
from isotrope.text.tokens import token_data
from isotrope.types import Teacher


class Trainer(SentenceTransformerTrainer):
    """sentence-transformers' trainer; clips the objective together with the encoder, draws by the step.

    Every step's dropout is a function of (seed, step, process) alone: how often a run is evaluated, killed or resumed
    changes nothing.
    """

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """No card: it would encode examples at every save."""

    def get_batch_sampler(self, *args: Any, **kwargs: Any) -> Any:
        """The sampler, and a callback that tells it the epoch: at a resume the trainer's wrappers hide it."""
        batches = super().get_batch_sampler(*args, **kwargs)
        self.add_callback(_Epochs(batches))
        return batches

    def _clip_grad_norm(self, model: nn.Module) -> Tensor:
        return self.accelerator.clip_grad_norm_(list(self.loss.parameters()), self.args.max_grad_norm)  # type: ignore[no-any-return]

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        torch.manual_seed(derive(derive(self.args.seed, self.loss.step), process_number()))
        return super().training_step(*args, **kwargs)  # type: ignore[no-any-return]


class _Epochs(TrainerCallback):
    def __init__(self, batches: PermutedBatches) -> None:
        self.batches = batches

    def on_epoch_begin(self, args: Any, state: TrainerState, control: Any, **_: Any) -> None:
        self.batches.set_epoch(int(state.epoch or 0))


@dataclass(frozen=True, slots=True)
class Fitted:
    """What the training itself tells."""

    steps: int
    best_step: int | None
    best_score: float | None
    seconds: float


def fit(
    model: SentenceTransformer,
    preset: Preset,
    corpus: Corpus,
    evaluator: DevScore | Signals,
    folder: Path,
    *,
    seed: int,
    sentences: int | None,
    rows: RowIds | None,
    console: Console,
    teachers: Mapping[str, Teacher],
    log_to: Iterable[str] = (),
) -> Fitted:
    """Train ``model`` in place, from the last whole checkpoint in ``folder/checkpoints`` if there is one.

    ``rows`` (R,) are the row ids of the sample of ``sentences``; None for all.

    Raises:
        Stopped: after Ctrl-C; the checkpoint stands.
    """
    checkpoints = folder / "checkpoints"
    # Under torchrun the processes meet here: until the main one has claimed the folder, no other writes to it.
    arguments = _arguments(preset, checkpoints, sentences, seed, log_to)
    checkpoints.mkdir(parents=True, exist_ok=True)
    main = process_number() == 0
    whole = last_whole_checkpoint(checkpoints, tidy=main)
    step = int(whole.name.rsplit("-", 1)[1]) if whole else 0
    log = MetricsLog(folder / "metrics.jsonl", upto=step, writing=main)
    narrator, ctrl_c = Narrator(console, log), CtrlC()
    selection = Selection(log, checkpoints, preset.train.patience, narrator.evaluated)
    torch.manual_seed(seed)  # the head's first weights
    objective = build_objective(preset, model, seed, teachers)
    dataset, collator = token_data(model, corpus, rows, preset.train.max_length, console)
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=dataset,
        loss=objective,
        evaluator=evaluator,
        data_collator=collator,
        callbacks=[ObjectiveState(objective), selection, narrator, ctrl_c],
    )
    for callback in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(callback)
    if main:
        selection.prune()
    began = time.monotonic()
    try:
        if not selection.exhausted:
            trainer.train(resume_from_checkpoint=str(whole) if whole else None)
    finally:
        narrator.close()
        ctrl_c.close()
    if ctrl_c.asked and trainer.state.global_step < trainer.state.max_steps:
        raise Stopped(f"stopped after step {trainer.state.global_step} of {trainer.state.max_steps}")
    best = selection.restore(model)
    score = selection.best_score if best else None
    return Fitted(max(step, trainer.state.global_step), best, score, time.monotonic() - began)


def _arguments(
    preset: Preset, output: Path, sentences: int | None, seed: int, log_to: Iterable[str]
) -> SentenceTransformerTrainingArguments:
    t = preset.train
    bf16 = t.precision == "bf16" or (
        t.precision == "auto" and torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    )
    return SentenceTransformerTrainingArguments(
        output_dir=str(output),
        num_train_epochs=t.epochs,
        per_device_train_batch_size=t.batch_size,
        gradient_accumulation_steps=t.accumulation,
        learning_rate=t.learning_rate,
        weight_decay=t.weight_decay,
        warmup_steps=t.warmup,
        lr_scheduler_type=t.schedule,
        max_grad_norm=t.max_grad_norm,
        bf16=bf16,
        fp16=t.precision == "fp16",
        eval_strategy="steps",
        eval_steps=t.eval_steps,
        save_strategy="steps",
        save_steps=t.save_steps,
        save_total_limit=2,
        logging_steps=min(50, t.eval_steps),
        batch_sampler=partial(trainer_batches, limit=sentences, world_size=process_count()),
        dataloader_drop_last=True,
        seed=seed,
        data_seed=seed,
        logging_nan_inf_filter=False,  # it asks the device twice a step, to hide a NaN
        **_loading(torch.cuda.is_available()),
        use_cpu=not (torch.cuda.is_available() or torch.backends.mps.is_available()),
        report_to=list(log_to) or "none",
        disable_tqdm=True,
        activation_checkpointing=t.gradient_checkpointing,
    )


def _loading(gpu: bool) -> dict[str, Any]:
    """On a GPU another process makes the batches to come, in pinned memory; on a CPU it would take from the step."""
    if not gpu:
        return {"dataloader_pin_memory": False}
    return {
        "dataloader_num_workers": 1,
        "dataloader_persistent_workers": True,
        "dataloader_prefetch_factor": 8,
        "accelerator_config": {"non_blocking": True},
    }
