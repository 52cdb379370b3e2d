"""The whole road from text to an encoder in Hugging Face format."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from isotrope.console.plain import plain_console
from isotrope.console.progress import progress
from isotrope.console.threads import threads_line
from isotrope.encoder.locate import short_name
from isotrope.errors import check_known
from isotrope.pretraining.model import begin_from, build_model, write_card, write_encoder
from isotrope.pretraining.recipe import RECIPES, Recipe, Schedule, reschedule
from isotrope.pretraining.text import prepare_text, prepare_vectors
from isotrope.pretraining.trainer import (
    Blocks,
    Keeper,
    PretrainingTrainer,
    collate,
    pretraining_arguments,
)
from isotrope.store.atomic import check_replaceable, new_folder, write_json
from isotrope.store.job import Job
from isotrope.store.records import read_record
from isotrope.text import read_text
from isotrope.training.checkpoints import keep_only, whole_checkpoints
from isotrope.training.fit import train_from

KIND = "pretraining"


def pretrain(
    documents: Any,
    *,
    output: str | Path,
    size: str | Recipe = "tiny",
    seed: int = 0,
    cold_start: bool = False,
    tokens: int | None = None,
    held_out: Any = None,
    split: str | None = None,
    compile: bool = False,
    checkpoint_minutes: float = 3.0,
    licence: str = "not stated",
    restart: bool = False,
    console: Console | None = None,
) -> Path:
    """Train a small encoder on sentences, by masked-language modelling, from nothing but text.

    The same text, seed, machine and settings give the same weights, interrupted or not. ``output``
    holds job.json (the settings), plan.json (the schedule), prepared/ (tokenizer, token ids, word
    vectors), metrics.jsonl (the curve: tokens, loss, held-out loss, tokens a second), checkpoints/
    and model/: encoder and tokenizer in Hugging Face format, and a card. The path of model/ is
    given back. The same call goes on where it stopped. With a larger budget, the run is prolonged
    from before its decay; with one just above what it has seen, it is cooled down and finished.

    Args:
        documents: one text a line: see `isotrope.text.read_text`.
        output: the run's folder.
        size: a name in `recipe.RECIPES`, or a Recipe of one's own.
        seed: of the weights, the order of the text and the masks.
        cold_start: begin with random embeddings, not with word vectors (factorised co-occurrences
            of the text).
        tokens: the budget (default: the size's); over its last part the learning rate falls to
            zero.
        held_out: text whose loss is reported (default: the last blocks of the documents, which are
            not trained on).
        split: "sentences" frames each sentence of a text alone: see
            `isotrope.text.split.language_of`.
        compile: use torch.compile; needs a C++ compiler, and is half as fast again on a CPU.
        checkpoint_minutes: time between checkpoints; each costs a pass over the held-out blocks.
        licence: of the text, for the model's card.
        restart: forget what an earlier call left in the output.
        console: where to report; None reports to the terminal.

    Raises:
        UserError: files that are missing or hold too little text; an output folder that is not
            ours, holds another run, is in use, is damaged, or cannot be written to; training that
            diverged.
        Stopped: after Ctrl-C, when the checkpoint is written.
    """
    if isinstance(size, str):
        check_known("size =", size, RECIPES)
    recipe = RECIPES[size] if isinstance(size, str) else size
    console = console or plain_console()
    text = read_text(documents, split=split, keep_duplicates=True)
    held = read_text(held_out, split=split, keep_duplicates=True) if held_out else None
    console.print(str(text.texts().report))
    identity = {
        "recipe": asdict(recipe) | {"tokens": None},
        "seed": seed,
        "warm_start": not cold_start,
        "documents": text.texts().key,
        "held_out": held.texts().key if held else None,
    }
    job = Job(output, KIND, identity, [text, *([held] if held else [])], restart=restart)
    prepared, model_folder = job.folder / "prepared", job.folder / "model"
    with job.held():
        check_replaceable(model_folder, "model")
        schedule, done = _schedule(job.folder, recipe, tokens, console)
        total = schedule.steps * recipe.step_tokens
        if (found := job.result()) and found["tokens"] == total:
            return model_folder
        job.begin()
        write_json(job.folder / "plan.json", asdict(schedule))
        tokenizer, blocks, unseen = prepare_text(prepared / "corpus", text, held, recipe, console)
        model = build_model(recipe, tokenizer, seed)
        if not done:
            cold = model.model.embeddings.tok_embeddings.weight.detach().numpy()
            warm = (
                None
                if cold_start
                else prepare_vectors(prepared / "vectors", blocks, cold, recipe, seed, console)
            )
            begin_from(model, warm, np.bincount(blocks.ravel(), minlength=len(tokenizer)))
        weights = sum(parameter.numel() for parameter in model.parameters())
        console.print(threads_line())
        console.print(
            f"training {weights / 1e6:.1f} M weights on {blocks.size / 1e6:.1f} M tokens of text"
        )
        with progress("trained", total, console, unit="tokens") as bar:
            curve = job.folder / "metrics.jsonl"
            keeper = Keeper(curve, schedule, recipe.step_tokens, checkpoint_minutes, console, bar)
            trainer = PretrainingTrainer(
                model=model,
                data_collator=collate,
                callbacks=[keeper],
                args=pretraining_arguments(
                    job.folder / "checkpoints", recipe, schedule, seed, compile
                ),
                train_dataset=Blocks(
                    blocks, schedule.steps * recipe.batch, recipe, len(tokenizer), seed
                ),
                eval_dataset=Blocks(unseen, len(unseen), recipe, len(tokenizer), seed),
            )
            train_from(trainer, done[-1] if done else None)
            loss = float(trainer.evaluate()["eval_loss"])
        with new_folder(model_folder, "model") as draft:
            write_encoder(model, tokenizer, draft)
            facts = {
                "size": size if isinstance(size, str) else "custom",
                "tokens": total,
                "held_out_loss": loss,
                "files": [short_name(path) for path in text.paths],
                "licence": licence,
                "seconds": sum(row.get("seconds", 0) for row in keeper.curve.records),
            }
            write_card(draft, model.model, unseen, identity | facts)
        job.finish({"tokens": total, "held_out_loss": loss})
        return model_folder


def _schedule(
    folder: Path, recipe: Recipe, tokens: int | None, console: Console
) -> tuple[Schedule, list[Path]]:
    """The schedule in force, the recorded one or one for a new budget, and the checkpoints to go on
    from.
    """
    path, checkpoints, schedule = folder / "plan.json", folder / "checkpoints", Schedule(0, 0)
    whole = whole_checkpoints(checkpoints, console.print)
    if whole or path.exists():
        plan = read_record(
            path, {"steps": int, "decay_start": int}, "put it back, or begin anew with --restart"
        )
        schedule = Schedule(plan["steps"], plan["decay_start"])
    steps = max(1, (tokens or recipe.tokens) // recipe.step_tokens)
    if not schedule.steps or (tokens is not None and schedule.steps != steps):
        schedule, whole = reschedule(whole, schedule, steps, recipe.decay)
        # first: the new schedule must not meet a checkpoint that it cannot go on from
        keep_only(checkpoints, whole)
    keep_only(checkpoints, schedule.kept(whole))
    return schedule, whole
