"""Whiten a model for good: a linear layer behind it, in plain sentence-transformers format, and whether that helped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sentence_transformers.base.modules import Normalize

from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.console.threads import threads_line
from isotrope.encoder import load, save
from isotrope.encoder.embed import vectors_of
from isotrope.encoder.locate import public_name
from isotrope.encoder.prompts import Prompts, used_prompt
from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import tasks_of_texts
from isotrope.evaluation.embed import Known
from isotrope.evaluation.self_made import SelfMadeTask, compare_on_documents, measure_in_words
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.evaluation.significance import compare as compare_pairs
from isotrope.evaluation.sts import main_pairs, similarities
from isotrope.post.saved import with_linear
from isotrope.post.whitening import SOFT_WHITENING, check_size, fewest_rows, whitening
from isotrope.store.atomic import check_replaceable
from isotrope.store.cache import cache_folder
from isotrope.store.disk import writing
from isotrope.text.corpus import open_corpus
from isotrope.text.coverage import coverage
from isotrope.text.sample import Sample
from isotrope.training.card import whiten_card
from isotrope.training.pairs import dev_names, dev_pairs
from isotrope.types import Encoder

WHITEN_RECORD = "whiten.json"  # beside the model: the settings, and how it compares with the old one
HELD_OUT = 2_000  # texts at most that the comparison keeps from the fit
_ADVICE = {
    "better": "use the new model",
    "worse": "keep the old model, or try a smaller --exponent",
    "not significant": "keep the old model",
    "not tested": "keep the old model until you have compared the two",
}
_MORE = "; labelled pairs (--dev) would judge better"


def whiten(
    model: str | Path,
    corpus: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    k: int | None = None,
    exponent: float = SOFT_WHITENING,
    sentences: int = 20_000,
    seed: int = 0,
    text: str | None = None,
    split: str | None = None,
    pooling: str | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
    dev: str | Sequence[str] = (),
    data: str | Path | None = None,
    compare: bool = True,
    console: Console | None = None,
) -> Path:
    """Fit whitening on text without labels, and save the model with it as a linear layer (D, K).

    It spreads a raw model's vectors evenly. A model that was trained on labelled pairs may lose by it, above all in
    search. So the new model is compared with the old one, and the result is kept in ``whiten.json``. Where the old
    model ends with unit length, the new one does too. Su et al., 2021, https://arxiv.org/abs/2103.15316.

    Args:
        model: as `isotrope.load` takes it.
        corpus: text files or folders, as `isotrope.train` takes them.
        output: the new model's folder; loads in plain sentence-transformers.
        k: dimensions kept, of the largest variance; None: all that have any.
        exponent: 0.5 is full whitening, 0 is centring alone.
        sentences: at most so many are sampled for the fit; more than D are needed, or than k. Exponent 0 alone needs 2.
        seed: of the sample.
        text: the sentences' column, in tables.
        split: "sentences" fits on the sentences of the texts: see `isotrope.text.split.language_of`.
        pooling: as `isotrope.load` takes it, and so are the next two.
        prompt: words before every text, in the fit and in the new model.
        prompt_name: the same, by its name in the model.
        dev: labelled pairs that judge: ``stsb``, ``sickr``, files (.tsv, .csv).
        data: the folder that holds ``senteval/``, for sets by name.
        compare: compare also on tasks made from texts that are kept from the fit (`document_tasks`).
        console: shows the progress; None: nothing is shown.

    Returns:
        ``output``.

    Raises:
        UserError: no such model, text or pairs, an impossible exponent, too few sentences for so many dimensions, an
            output that holds something.
    """
    folder, console = Path(output), console or plain_console(quiet=True)
    if folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty", "choose a new folder")
    check_replaceable(folder, "model")
    if not 0 <= exponent <= 0.5:
        raise UserError(f"exponent = {exponent}", "choose 0 (centring alone) to 0.5 (full whitening)")
    judging = dev_pairs(dev_names([dev] if isinstance(dev, str) else dev), data)
    with watch("loading", console):
        encoder = load(model, pooling, prompt=prompt, prompt_name=prompt_name)
        if note := Prompts(prompt, prompt_name).note(encoder, str(model)):
            console.print(note)
        paths = [corpus] if isinstance(corpus, str | Path) else corpus
        cleaned = open_corpus(paths, cache=cache_folder("corpora"), text=text, split=split)
    console.print(str(cleaned.report))
    if found := coverage(encoder, used_prompt(encoder), Sample(cleaned, None, seed), encoder.max_seq_length or 512):
        console.print(str(found))
        if warning := found.warning([] if split else ["add --split sentences"]):
            console.print(warning)
    dim = int(encoder.get_embedding_dimension())
    drawn = Sample(cleaned, None, seed).texts(sentences + HELD_OUT)
    kept = max(0, min(HELD_OUT, len(drawn) // 5, len(drawn) - fewest_rows(dim, k, exponent))) if compare else 0
    fitted_on, held = drawn[: len(drawn) - kept][:sentences], drawn[len(drawn) - kept :]
    wanted = check_size(len(fitted_on), dim, k, exponent)
    tasks = tasks_of_texts(held)
    judged = [sentence for pairs in judging.values() for sentence in (*pairs.first, *pairs.second)]
    texts = list(dict.fromkeys([*fitted_on, *(text for task in tasks for text in task.texts), *judged]))
    with writing(folder.parent, again="run the same command again"):
        console.print(threads_line())
        with watch("encoding", console):
            old = Known(texts, vectors_of(encoder, texts, batch_size=32))
        mean, matrix = whitening(np.asarray(old.encode(fitted_on), dtype=np.float64), k, exponent)
        new = Known(texts, (old.vectors - mean) @ matrix)
        encoder = with_linear(encoder, mean, matrix)
        record = {
            "model": public_name(model), "pooling": pooling, "k": k, "exponent": exponent, "seed": seed,
            "split": split,
            "prompt": encoder.prompts.get(encoder.default_prompt_name or ""),
            "corpus": {"key": cleaned.key, "rows": len(cleaned), "used": len(fitted_on)},
            "dimensions": {"before": dim, "after": matrix.shape[1], "left_out": wanted - matrix.shape[1]},
            "unit_length": isinstance(encoder[-1], Normalize),
            "held_out": {"texts": len(held), "used": max((task.size for task in tasks), default=0)},
            **_verdict(old, new, tasks, judging),
        }  # fmt: skip
        card = whiten_card(model, paths, record, encoder)
        save(encoder, folder, {WHITEN_RECORD: record}, card.markdown(folder))
    return folder


def _verdict(old: Encoder, new: Encoder, tasks: Sequence[SelfMadeTask], judging: Mapping[str, Pairs]) -> dict[str, Any]:
    """The comparisons, and what follows from them. Labels come before tasks that nobody labelled."""
    sets = {name: {"test": pairs} for name, pairs in judging.items()}
    scored = [main_pairs(sets, similarities(encoder, sets)) for encoder in (old, new)] if sets else []
    found = {
        "pairs": asdict(compare_pairs(scored[0], scored[1])) if scored else None,
        "self_made": asdict(compare_on_documents(old, new, tasks)) if tasks else None,
    }
    verdict = (found["pairs"] or found["self_made"] or {"verdict": "not tested"})["verdict"]
    return found | {
        "measure": measure_in_words(tasks),
        "verdict": verdict,
        "advice": _ADVICE[verdict] + ("" if sets else _MORE),
    }
