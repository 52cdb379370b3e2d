"""transformers' trainer, as pretraining uses it: what it reads, its settings, and what happens
between its steps.
"""

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments

from isotrope.console.progress import Bar
from isotrope.errors import UserError
from isotrope.pretraining.recipe import Recipe, Schedule
from isotrope.pretraining.text import SPECIAL, START, Ids
from isotrope.store.records import RecordLog
from isotrope.training.checkpoints import (
    MarkedCheckpoints,
    checkpoint_folder,
    keep_only,
    seal,
    whole_checkpoints,
)


class Blocks(Dataset[dict[str, Any]]):
    """The run's blocks (B, L) in order, ``length`` of them, and what is hidden in each.

    Every pass over the corpus is a fresh permutation. The trainer reads places one after the other,
    so a resumed run only has to know its step.
    """

    def __init__(
        self, blocks: Ids, length: int, recipe: Recipe, vocabulary: int, seed: int
    ) -> None:
        self.blocks, self.length, self.recipe, self.vocabulary, self.seed = (
            blocks,
            length,
            recipe,
            vocabulary,
            seed,
        )
        self._epoch, self._order = -1, np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: int) -> dict[str, Any]:
        epoch, within = divmod(place, len(self.blocks))
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng([self.seed, epoch]).permutation(len(self.blocks))
        ids = self.blocks[self._order[within]].astype(np.int64)
        shown, labels = hide(ids, self.recipe, self.vocabulary, self.seed, place)
        return {"ids": ids, "input_ids": shown, "labels": labels}


def hide(ids: np.ndarray[Any, Any], recipe: Recipe, vocabulary: int, seed: int, place: int) -> Any:
    """Choose the tokens of one block (L,) to predict, and how they are shown: (shown (L,), labels
    (L,)).

    Exactly round(mask · L) tokens are chosen, never a special one while others are left: equal
    counts give equal shapes, hence the same compiled kernels before and after a resume.
    Labels are -100 where nothing is to be predicted. BERT's masking: Devlin et al. 2019.
    """
    # [MASK] is the last of these
    generator, special = np.random.default_rng([seed, place]), len(SPECIAL)
    # (L,): special tokens sort behind all others
    keys = generator.random(len(ids)) + (ids < special)
    chosen = np.argsort(keys)[: round(recipe.mask * len(ids))]
    how, random_ids = (
        generator.random(len(chosen)),
        generator.integers(special, vocabulary, len(chosen)),
    )
    shown, labels = ids.copy(), np.full(len(ids), -100, dtype=np.int64)
    labels[chosen] = ids[chosen]
    as_random = np.where(
        how < recipe.masked_by_mask + recipe.masked_by_random, random_ids, ids[chosen]
    )
    shown[chosen] = np.where(how < recipe.masked_by_mask, special - 1, as_random)
    return shown, labels


def within_sentences(sentence: Tensor) -> Tensor:
    """What is added to attention scores (B, 1, L, L): 0 within each number of sentence (B, L), else
    -inf.
    """
    apart = (sentence[:, :, None] != sentence[:, None, :])[:, None]
    return torch.zeros(apart.shape, device=apart.device).masked_fill_(apart, -torch.inf)


def collate(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
    """Blocks to a batch: input_ids (B, L), labels (B, L), attention_mask (B, 1, L, L).

    Attention stays inside each sentence, so a block trains what a lone sentence meets.
    """
    batch = {name: torch.from_numpy(np.stack([row[name] for row in rows])) for name in rows[0]}
    sentence = (batch.pop("ids") == START).cumsum(dim=1)
    return {**batch, "attention_mask": within_sentences(sentence)}


class PretrainingTrainer(MarkedCheckpoints, Trainer):
    """Marks its checkpoints."""


def pretraining_arguments(
    checkpoints: Path, recipe: Recipe, schedule: Schedule, seed: int, compile: bool
) -> Any:
    """The trainer's arguments; losses and checkpoints are asked for by the Keeper."""
    gpu = torch.cuda.is_available()
    return TrainingArguments(
        output_dir=str(checkpoints),
        max_steps=schedule.steps,
        seed=seed,
        per_device_train_batch_size=recipe.batch,
        per_device_eval_batch_size=recipe.batch,
        train_sampling_strategy="sequential",
        remove_unused_columns=False,
        learning_rate=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        adam_beta2=recipe.beta2,
        max_grad_norm=recipe.clip,
        lr_scheduler_type="warmup_stable_decay",
        warmup_steps=min(recipe.warmup_steps, schedule.decay_start),
        lr_scheduler_kwargs={
            "num_decay_steps": schedule.steps - schedule.decay_start,
            "decay_type": "1-sqrt",
        },
        bf16=torch.cuda.is_bf16_supported() if gpu else torch.cpu._is_avx512_bf16_supported(),
        torch_compile=compile,
        use_cpu=not gpu,
        eval_strategy="no",
        save_strategy="no",
        logging_strategy="no",
        prediction_loss_only=True,
        logging_nan_inf_filter=False,  # it hides a NaN
        disable_tqdm=True,
        report_to=[],
    )


class Keeper(TrainerCallback):
    """Every so many minutes: training loss, held-out loss and a checkpoint; a line in the curve
    file and one shown.

    It comes after the callback that hears Ctrl-C, whose stop is a reason for a checkpoint too.
    """

    def __init__(
        self,
        curve: Path,
        schedule: Schedule,
        step_tokens: int,
        minutes: float,
        console: Console,
        bar: Bar,
    ) -> None:
        self.curve, self.schedule, self.step_tokens, self.minutes = (
            RecordLog(curve),
            schedule,
            step_tokens,
            minutes,
        )
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
            # since the last line, as the seconds are
            speed = round((step - self._from) * self.step_tokens / seconds)
            self._row = {
                "step": step,
                "tokens": step * self.step_tokens,
                "seconds": round(seconds, 3),
            }
            self._row["tokens_per_second"] = speed

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **_: Any) -> None:
        """Note the mean training loss since the last line."""
        if "loss" in logs:
            self._row |= {"loss": round(logs["loss"], 4), "learning_rate": logs["learning_rate"]}

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: dict[str, float], **_: Any
    ) -> None:
        """Note the held-out loss. If it is not finite, no checkpoint of such weights is written."""
        if not math.isfinite(metrics["eval_loss"]):
            problem = f"training diverged before step {state.global_step}: the held-out loss is not finite"
            remedy = f"lower the recipe's learning_rate (now {args.learning_rate:g}), and choose another folder"
            raise UserError(problem, remedy)
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
