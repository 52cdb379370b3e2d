"""The text of a run: texts as they are, or pairs drawn from documents where the preset has ``[pairs]``."""

from __future__ import annotations

from typing import Any

import numpy as np

from isotrope.errors import UserError
from isotrope.preset.pairs import pair_maker
from isotrope.preset.preset import Preset
from isotrope.store.cache import cache_folder
from isotrope.store.remote import is_url
from isotrope.text.collection import documents_key, open_documents
from isotrope.text.corpus import Corpus, Wanted, corpus_key, open_corpus
from isotrope.text.pair_corpus import open_pairs, pairs_key
from isotrope.text.sample import RowIds, RowOrder
from isotrope.training.settings import RunSettings

WATCHED, WATCHED_SEED = 1000, 0  # sentences for the label-free signals, the same for every seed of a run


def text_key(settings: RunSettings, preset: Preset) -> str:
    """The key that the corpus will have, from the bytes of its files, before they are read.

    Raises:
        UserError: a file is missing, unreadable, or of an unknown kind; a setting has no effect with this preset.
    """
    _refuse_without_effect(settings, preset)
    if preset.pairs is None:
        return corpus_key(
            settings.paths, text=settings.text, positive=settings.positive, negatives=settings.negatives,
            split=settings.split, cleaning=settings.cleaning,
        )  # fmt: skip
    maker, rounds = pair_maker(preset.pairs)
    documents = documents_key(settings.paths, title=settings.title, text=settings.text)
    return pairs_key(documents, maker, rounds=rounds, seed=settings.seed, held_out=settings.held_out)


def open_text(settings: RunSettings, preset: Preset) -> Corpus:
    """The corpus to train on, from the cache where it was read before.

    Raises:
        UserError: as `open_corpus`, or as `open_documents` and `open_pairs`.
    """
    if preset.pairs is None:
        return open_corpus(
            settings.paths, cache=cache_folder("corpora"), text=settings.text, positive=settings.positive,
            negatives=settings.negatives, split=settings.split, cleaning=settings.cleaning,
            wanted=_wanted(settings, preset.train.batch_size),
        )  # fmt: skip
    maker, rounds = pair_maker(preset.pairs)
    cache = cache_folder("documents")
    documents = open_documents(settings.paths, cache=cache, title=settings.title, text=settings.text)
    return open_pairs(
        documents, maker, cache=cache_folder("pairs"), rounds=rounds, seed=settings.seed, held_out=settings.held_out
    )


def _wanted(settings: RunSettings, batch: int) -> Wanted | None:
    """What a run reads of a corpus: its sample, the sentences that it watches, the first batch. None: all.

    Only a sample of text behind URLs is worth it: of text on this machine, the next sample would have to be read again.
    """
    if settings.sentences is None or not any(map(is_url, settings.paths)):
        return None
    count, seed = settings.sentences, settings.seed

    def rows(n: int) -> RowIds:
        orders = RowOrder(n, count, seed), RowOrder(n, min(WATCHED, n), WATCHED_SEED)
        return np.unique(np.concatenate([*(order.rows(0, order.size) for order in orders), np.arange(min(batch, n))]))

    return Wanted(f"{count}-{seed}-{batch}", rows)


def _refuse_without_effect(settings: RunSettings, preset: Preset) -> None:
    given: dict[str, Any]
    if preset.pairs is None:
        given = {"title": settings.title, "held_out": settings.held_out}
        why = "reads texts, not documents"
    else:
        given = {
            "positive": settings.positive, "negatives": list(settings.negatives), "split": settings.split,
            "keep_duplicates": settings.keep_duplicates,
        }  # fmt: skip
        why = "draws its pairs from whole documents"
    for name, value in given.items():
        if value:
            problem = f"{name} has no effect with the preset {preset.name}, which {why}"
            raise UserError(problem, "leave it out, or choose another preset")
