"""The whole road from text files to an encoder in Hugging Face format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from transformers import PrinterCallback
from transformers.utils import logging as transformers_logging

from isotrope.console.plain import plain_console
from isotrope.console.progress import progress
from isotrope.console.threads import threads_line
from isotrope.errors import Stopped, UserError
from isotrope.pretraining.card import write_card
from isotrope.pretraining.export import write_encoder
from isotrope.pretraining.keeper import Keeper
from isotrope.pretraining.masking import Blocks, MaskingCollator
from isotrope.pretraining.model import begin_from, build_model
from isotrope.pretraining.prepare import START, prepare_blocks, prepare_tokenizer, prepare_vectors
from isotrope.pretraining.recipe import Recipe, recipe_of
from isotrope.pretraining.schedule import Schedule, reschedule
from isotrope.pretraining.tokenizer import SPECIAL
from isotrope.pretraining.trainer import PretrainingTrainer, pretraining_arguments
from isotrope.store.atomic import new_folder, write_json
from isotrope.store.lock import hold
from isotrope.store.mark import kind_of
from isotrope.store.records import read_record
from isotrope.store.remote import local_paths
from isotrope.text.files import content_checksum, find_sources, not_read, passed_over
from isotrope.training.checkpoints import keep_only, whole_checkpoints
from isotrope.training.progress import CtrlC


def pretrain(
    corpus: Sequence[str | Path],
    *,
    size: str | Recipe = "tiny",
    output: Path,
    seed: int = 0,
    cold_start: bool = False,
    tokens: int | None = None,
    held_out: Sequence[str | Path] = (),
    split: str | None = None,
    resume: bool = False,
    compile: bool = False,
    checkpoint_minutes: float = 3.0,
    half: bool = True,
    licence: str = "not stated",
    console: Console | None = None,
) -> Path:
    """Train a small encoder on sentences, by masked-language modelling, from nothing but text.

    The same text, seed, machine and settings give the same weights, interrupted or not. ``output`` holds run.json (the
    settings), plan.json (the schedule), prepared/ (tokenizer, token ids, word vectors), metrics.jsonl (the curve:
    tokens, loss, held-out loss, tokens a second), checkpoints/ and model/.

    Args:
        corpus: text files or folders, one text a line (see `isotrope.text.files.SUPPORTED`).
        size: a name in `recipe.RECIPES`, or a Recipe of one's own.
        output: the run's folder.
        seed: of the weights, the order of the text and the masks.
        cold_start: begin with random embeddings, not with word vectors (factorised co-occurrences of the corpus).
        tokens: the budget (default: the size's); over its last part the learning rate falls to zero.
        held_out: files whose loss is told (default: the corpus's last blocks, which are then not trained on).
        split: "sentences" frames each sentence of a text alone: see `isotrope.text.split.language_of`.
        resume: go on from the last whole checkpoint. With a larger budget the run is prolonged from before its decay;
            with a budget just above what it has seen, it is cooled down and finished.
        compile: use torch.compile; needs a C++ compiler, and is half as fast again on a CPU.
        checkpoint_minutes: time between checkpoints; each costs a pass over the held-out blocks.
        half: store the final weights in half precision (they load in single precision).
        licence: of the text, for the model card.
        console: where to report; None reports to the terminal.

    Returns:
        ``output``/model: encoder and tokenizer in Hugging Face format, and a card.

    Raises:
        UserError: files that are missing or hold too little text; an output folder that is not ours, holds another
            run, is in use, is damaged, or cannot be written to; training that diverged.
        Stopped: after Ctrl-C, when the checkpoint is written.
    """
    recipe = recipe_of(size) if isinstance(size, str) else size
    console = console or plain_console()
    sources, held = find_sources(corpus, split), find_sources(held_out, split) if held_out else []
    _refuse_nested(output, [*corpus, *held_out])
    if left := not_read(passed_over([*corpus, *held_out])):
        console.print(left)
    identity = {
        "recipe": asdict(recipe) | {"tokens": None},
        "seed": seed,
        "warm_start": not cold_start,
        "corpus": content_checksum(sources, ""),
        "held_out": content_checksum(held, "") if held else None,
    }
    checkpoints, prepared, target = output / "checkpoints", output / "prepared", output / "model"
    with hold(output, "pretraining"), _no_other_bars():
        _compare(output / "run.json", identity, resume)
        if target.exists() and kind_of(target) is None:
            raise UserError(f"{target} was not made by isotrope", "move it away, or choose another --output")
        schedule, done = _schedule(output, recipe, tokens, console)

        tokenizer = prepare_tokenizer(prepared / "tokenizer", sources, recipe, console)
        blocks, unseen = prepare_blocks(prepared / "text", sources, held, tokenizer, recipe, console)
        attention = "sdpa" if torch.cuda.is_available() else "eager"
        model = build_model(recipe, tokenizer, seed, attention)
        if not done:
            cold = model.model.embeddings.tok_embeddings.weight.detach().numpy()
            warm = None if cold_start else prepare_vectors(prepared / "vectors", blocks, cold, recipe, seed, console)
            begin_from(model, warm, np.bincount(blocks.ravel(), minlength=len(tokenizer)))
        weights = sum(parameter.numel() for parameter in model.parameters())
        console.print(threads_line())
        console.print(f"training {weights / 1e6:.1f} M weights on {blocks.size / 1e6:.1f} M tokens of text")

        ctrl_c = CtrlC()
        total = schedule.steps * recipe.step_tokens
        with progress("trained", total, console, unit="tokens") as bar:
            keeper = Keeper(output / "metrics.jsonl", schedule, recipe.step_tokens, checkpoint_minutes, console, bar)
            trainer = PretrainingTrainer(
                model=model,
                args=pretraining_arguments(checkpoints, recipe, schedule, seed, compile),
                data_collator=MaskingCollator(recipe, len(tokenizer), START, len(SPECIAL), seed, attention),
                train_dataset=Blocks(blocks, schedule.steps * recipe.batch, seed),
                eval_dataset=Blocks(unseen, len(unseen), seed),
                callbacks=[ctrl_c, keeper],
            )
            trainer.remove_callback(PrinterCallback)
            try:
                trainer.train(resume_from_checkpoint=str(done[-1]) if done else None)
            finally:
                ctrl_c.close()
            step = trainer.state.global_step
            if ctrl_c.asked and step < schedule.steps:
                raise Stopped(f"stopped after step {step} of {schedule.steps}")
            loss = trainer.evaluate()["eval_loss"]
        with new_folder(target, "model") as draft:
            write_encoder(model, tokenizer, draft, half=half)
            facts = {
                "size": size if isinstance(size, str) else "custom",
                "files": [source.path.name for source in sources],
                "tokens": total,
                "held_out_loss": loss,
                "seconds": sum(row.get("seconds", 0) for row in keeper.curve.records),
                "licence": licence,
            }
            write_card(draft, model.model, unseen, identity | facts)
        return target


def _refuse_nested(output: Path, paths: Sequence[str | Path]) -> None:
    """The run's own files would become text at the next start."""
    for path in local_paths(paths):
        if path.is_dir() and output.resolve().is_relative_to(path.resolve()):
            raise UserError(f"{output} lies in the folder of the text, {path}", "choose an --output outside of it")


def _compare(record: Path, identity: dict[str, Any], resume: bool) -> None:
    """Write the run's settings into a new folder, or check that those in a resumed folder are the same."""
    if not record.exists():
        write_json(record, identity)
        return
    if not resume:
        folder = record.parent
        raise UserError(f"{folder} holds a run already", "add --resume to go on with it, or choose another --output")
    old = read_record(record, list(identity), "put it back, or choose another --output")
    for key, value in identity.items():
        if old[key] != value:
            shown = f"another {key}" if key in ("corpus", "held_out") else f"{key} = {old[key]}, now it is {value}"
            raise UserError(
                f"{record.parent} was begun with {shown}", "resume with what it began with, or choose another --output"
            )


def _schedule(output: Path, recipe: Recipe, tokens: int | None, console: Console) -> tuple[Schedule, list[Path]]:
    """The schedule in force, the recorded one or one for a new budget, and the checkpoints to go on from."""
    path, checkpoints = output / "plan.json", output / "checkpoints"
    whole = whole_checkpoints(checkpoints, console.print)
    old = Schedule.read(path) if whole or path.exists() else None
    steps = max(1, (tokens or recipe.tokens) // recipe.step_tokens)
    if old is None or (tokens is not None and old.steps != steps):
        schedule, whole = reschedule(whole, old or Schedule(0, 0), steps, recipe.decay)
        keep_only(checkpoints, whole)  # first: the new schedule must not meet a checkpoint that it cannot go on from
        schedule.write(path)
    else:
        schedule = old
    keep_only(checkpoints, schedule.kept(whole))
    return schedule, whole


@contextmanager
def _no_other_bars() -> Iterator[None]:
    """Hide those of transformers: one for every folder that it saves."""
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()
