"""A random sample of a corpus: the one that a run with the same seed visits first."""

from __future__ import annotations

from isotrope.text.batches import PermutedBatches
from isotrope.text.corpus import Corpus


def sample(corpus: Corpus, count: int, seed: int, *, of: int | None = None) -> list[str]:
    """At most ``count`` sentences (the corpus's first column) of the sample of ``of`` that ``seed`` trains on."""
    batches = PermutedBatches(len(corpus), 1, seed, limit=None if of is None else min(of, len(corpus)))
    rows = batches.rows(0, min(count, batches.size))
    return list(corpus.dataset[rows.tolist()][corpus.columns[0]])
