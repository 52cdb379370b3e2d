"""The whole road from text files to an encoder in Hugging Face format."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from transformers import AutoTokenizer, PrinterCallback, Trainer, TrainingArguments
from transformers.utils import logging as transformers_logging

from isotrope.errors import UserError
from isotrope.pretraining.card import mean_cosine, write_card
from isotrope.pretraining.checkpoints import Plan, replan, tidy, whole
from isotrope.pretraining.export import export
from isotrope.pretraining.masking import Blocks, Collator
from isotrope.pretraining.model import begin_from, build
from isotrope.pretraining.progress import Keeper, Say
from isotrope.pretraining.recipe import Recipe, recipe_of
from isotrope.pretraining.stream import Ids, blocks_of, sentences, tokenise
from isotrope.pretraining.tokenizer import SPECIAL, train_tokenizer
from isotrope.pretraining.vectors import warm_embeddings
from isotrope.run.progress import CtrlC
from isotrope.store.disk import writing
from isotrope.text.files import TextFile, find_sources

START = list(SPECIAL).index("cls")  # id of the token that begins a sentence
CARD_BLOCKS = 64  # whose sentences the card's mean cosine is taken over
logger = logging.getLogger(__name__)


def pretrain(
    corpus: Sequence[str | Path],
    *,
    size: str | Recipe = "tiny",
    output: Path,
    seed: int = 0,
    warm_start: bool = True,
    tokens: int | None = None,
    held_out: Sequence[str | Path] = (),
    resume: bool = False,
    compile: bool = False,
    checkpoint_minutes: float = 3.0,
    half: bool = True,
    licence: str = "not stated",
    say: Say = logger.info,
) -> Path:
    """Train a small encoder on sentences, by masked-language modelling, from nothing but text.

    The same seed, machine and settings give the same weights, interrupted or not. `output` holds tokens.bin (the
    corpus as ids), metrics.jsonl (the curve: tokens, loss, held-out loss, tokens a second), checkpoints/ and model/.

    Args:
        corpus: text files or folders, one sentence a line (.txt, .jsonl, .csv, .tsv, .parquet; .gz, .xz, .zst too).
        size: a name in `recipe.SIZES`, or a Recipe of one's own.
        output: the run's folder.
        seed: of the weights, the order of the text and the masks.
        warm_start: begin from word vectors (factorised co-occurrences of the corpus) instead of random embeddings.
        tokens: the budget (default: the size's); over its last part the learning rate falls to zero.
        held_out: files whose loss is told (default: the corpus's last blocks, which are then not trained on).
        resume: go on from the last whole checkpoint. With a larger budget the run is prolonged from before its decay;
            with a budget just above what it has seen, it is cooled down and finished.
        compile: use torch.compile; needs a C++ compiler, and is half as fast again on a CPU.
        checkpoint_minutes: time between checkpoints; each costs a pass over the held-out blocks.
        half: store the final weights in half precision (they load in single precision).
        licence: of the text, for the model card.
        say: gets a line now and then.

    Returns:
        `output`/model: encoder and tokenizer in Hugging Face format, and a card.

    Raises:
        UserError: files that are missing or hold too little text; an output folder that holds another run,
            is in use, or cannot be written to.
        KeyboardInterrupt: after Ctrl-C, when the checkpoint is written.
    """
    recipe = recipe_of(size) if isinstance(size, str) else size
    sources, held_sources = find_sources(corpus), find_sources(held_out) if held_out else []
    settings = {
        "size": size if isinstance(size, str) else "custom",
        "recipe": asdict(recipe) | {"tokens": None},
        "seed": seed,
        "warm_start": warm_start,
        "corpus": [[source.path.name, source.path.stat().st_size] for source in sources],
        "held_out": [[source.path.name, source.path.stat().st_size] for source in held_sources],
    }
    with writing(output), _alone(output):
        _claim(output, settings, resume)
        plan = _plan(output, recipe, tokens)

        tokenizer = _tokenizer(output / "tokenizer", sources, recipe, say)
        blocks, unseen = _blocks(output, sources, held_sources, tokenizer, recipe, say)
        attention = "sdpa" if torch.cuda.is_available() else "eager"
        model = build(recipe, tokenizer, seed, attention)
        checkpoints = output / "checkpoints"
        done = whole(checkpoints)
        if not done:
            vectors = _vectors(output / "vectors.npy", blocks, model, recipe, seed, say) if warm_start else None
            begin_from(model, vectors, np.bincount(blocks.ravel(), minlength=len(tokenizer)))

        ctrl_c = CtrlC()
        trainer = Trainer(
            model=model,
            args=_arguments(checkpoints, recipe, plan, seed, compile),
            data_collator=Collator(recipe, len(tokenizer), START, len(SPECIAL), seed, attention),
            train_dataset=Blocks(blocks, plan.steps * recipe.batch, seed),
            eval_dataset=Blocks(unseen, len(unseen), seed),
            callbacks=[ctrl_c, Keeper(output / "metrics.jsonl", plan, recipe.step_tokens, checkpoint_minutes, say)],
        )
        trainer.remove_callback(PrinterCallback)
        tidy(checkpoints, plan.decay_start)
        weights = sum(parameter.numel() for parameter in model.parameters())
        say(f"training {weights / 1e6:.1f} M weights on {blocks.size / 1e6:.1f} M tokens of text")
        bars = transformers_logging.is_progress_bar_enabled()
        transformers_logging.disable_progress_bar()  # one for every checkpoint
        try:
            trainer.train(resume_from_checkpoint=str(done[-1]) if done else None)
        finally:
            ctrl_c.close()
            if bars:
                transformers_logging.enable_progress_bar()
        if ctrl_c.asked:
            raise KeyboardInterrupt(f"stopped with a checkpoint; go on with --resume --output {output}")
        target = export(model, tokenizer, output / "model", half=half)
        write_card(
            target, output / "metrics.jsonl", settings, mean_cosine(model.model, unseen[:CARD_BLOCKS], START), licence
        )
        return target


@contextmanager
def _alone(output: Path) -> Iterator[None]:
    """Keep a second process out of the run's folder."""
    lock = FileLock(output / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise UserError(f"{output} is in use by another process", "wait for it, or choose another folder") from error
    try:
        yield
    finally:
        lock.release()


def _claim(output: Path, settings: dict[str, Any], resume: bool) -> None:
    """Write the run's settings into a new folder, or check that those in a resumed folder are the same."""
    record = output / "run.json"
    if record.exists():
        if not resume:
            raise UserError(f"{output} holds a run already", "resume it, or choose another output folder")
        old = json.loads(record.read_text())
        for key, value in json.loads(json.dumps(settings)).items():
            if old.get(key) != value:
                problem = f"{output} was begun with {key} = {old.get(key)}, now it is {value}"
                raise UserError(problem, "resume with the settings of its run.json, or choose another output folder")
    record.write_text(json.dumps(settings, indent=1))


def _plan(output: Path, recipe: Recipe, tokens: int | None) -> Plan:
    """The plan in force: the recorded one, or one for a new budget."""
    path, checkpoints = output / "plan.json", output / "checkpoints"
    old = Plan.read(path) if path.exists() else None
    if old is not None and tokens is None:
        return old
    steps = max(1, (tokens or recipe.tokens) // recipe.step_tokens)
    if old is not None and old.steps == steps:
        return old
    plan, forget = replan(checkpoints, old or Plan(0, 0), steps, recipe.decay)
    for path_of_old in forget:
        shutil.rmtree(path_of_old)
    plan.write(path)
    return plan


def _tokenizer(folder: Path, sources: Sequence[TextFile], recipe: Recipe, say: Say) -> Any:
    if not folder.exists():
        say("learning a vocabulary")
        part = folder.with_name("tokenizer.part")
        train_tokenizer(sentences(sources), recipe.vocabulary, recipe.max_positions).save_pretrained(part)
        part.replace(folder)
    return AutoTokenizer.from_pretrained(folder)


def _blocks(
    output: Path, sources: Sequence[TextFile], held: Sequence[TextFile], tokenizer: Any, recipe: Recipe, say: Say
) -> tuple[Ids, Ids]:
    """Blocks to train on (B, L) and held-out ones (H, L)."""
    if not (output / "tokens.bin").exists():
        say("tokenising the corpus")
    blocks = blocks_of(tokenise(sources, tokenizer, output / "tokens.bin"), recipe.block)
    if held:
        unseen = blocks_of(tokenise(held, tokenizer, output / "held_out.bin"), recipe.block)[: recipe.held_out_blocks]
    else:
        seen = len(blocks) - min(recipe.held_out_blocks, len(blocks) // 10)
        blocks, unseen = blocks[:seen], blocks[seen:]
    if not len(blocks) or not len(unseen):
        names = ", ".join(str(source.path) for source in [*sources, *held])
        raise UserError(f"{names}: too little text", f"give more than {10 * recipe.block} tokens of it")
    return blocks, unseen


def _vectors(path: Path, blocks: Ids, model: Any, recipe: Recipe, seed: int, say: Say) -> Any:
    if not path.exists():
        say("factorising the co-occurrences")
        cold = model.model.embeddings.tok_embeddings.weight.detach().numpy()
        row = blocks.reshape(-1)  # (T,)
        found = warm_embeddings(row, cold, START, len(SPECIAL), recipe.window, recipe.vector_scale, seed)
        part = path.with_name("vectors.part.npy")
        np.save(part, found)
        part.replace(path)
    return np.load(path)


def _arguments(checkpoints: Path, recipe: Recipe, plan: Plan, seed: int, compile: bool) -> Any:
    """The trainer's arguments; losses and checkpoints are asked for by the Keeper."""
    gpu = torch.cuda.is_available()
    return TrainingArguments(
        output_dir=str(checkpoints),
        max_steps=plan.steps,
        per_device_train_batch_size=recipe.batch,
        per_device_eval_batch_size=recipe.batch,
        train_sampling_strategy="sequential",
        learning_rate=recipe.learning_rate,
        lr_scheduler_type="warmup_stable_decay",
        warmup_steps=min(recipe.warmup_steps, plan.decay_start),
        lr_scheduler_kwargs={"num_decay_steps": plan.steps - plan.decay_start, "decay_type": "1-sqrt"},
        weight_decay=recipe.weight_decay,
        adam_beta2=recipe.beta2,
        max_grad_norm=recipe.clip,
        bf16=torch.cuda.is_bf16_supported() if gpu else torch.cpu._is_avx512_bf16_supported(),
        torch_compile=compile,
        use_cpu=not gpu,
        seed=seed,
        eval_strategy="no",
        save_strategy="no",
        logging_strategy="no",
        prediction_loss_only=True,
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to=[],
    )
