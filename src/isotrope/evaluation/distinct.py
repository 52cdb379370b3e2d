"""Near-duplicates among texts: those that share half of their word triples."""

from collections.abc import Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt
from sklearn.feature_extraction.text import CountVectorizer

from isotrope.text.split import words_of

NEAR = 0.5  # two texts with so large a share of common word triples (Jaccard) are near-duplicates
OFTEN = 0.05  # of the texts: a word triple that so many have is frequent


def distinct_rows(texts: Sequence[str], most: int, shortest: int) -> list[int]:
    """The first ``most`` texts of at least ``shortest`` words that are no near-duplicates of an earlier one.

    At most 2 · ``most`` are compared with each other.
    """
    place: dict[str, int] = {}  # of each text's first occurrence
    for row, text in enumerate(texts):
        place.setdefault(text, row)
    long = list(islice((text for text in place if len(words_of(text)[0]) >= shortest), 2 * most))
    if not long:
        return []
    near = _jaccard(long) >= NEAR  # (N, N)
    kept: list[int] = []
    for row in range(len(long)):
        if len(kept) < most and not near[row, kept].any():
            kept.append(row)
    return [place[long[row]] for row in kept]


def _jaccard(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """Common word triples over all word triples of two texts: (N, N)."""
    counted = CountVectorizer(analyzer=_triples, binary=True, dtype=np.float32).fit_transform(texts)  # (N, triples)
    # Of frequent triples a dense product is faster, of others a sparse one; a triple of one text alone is in none.
    occurs = np.asarray(counted.sum(axis=0)).ravel()
    often = occurs > OFTEN * len(texts)
    dense, rare = counted[:, often].toarray(), counted[:, ~often & (occurs > 1)]
    common = dense @ dense.T + (rare @ rare.T).toarray()
    sizes = np.asarray(counted.sum(axis=1)).ravel()
    np.fill_diagonal(common, sizes)
    return np.asarray(common / (sizes[:, None] + sizes[None, :] - common))


def _triples(text: str) -> list[tuple[str, str, str]]:
    words = words_of(text.casefold())[0]
    return list(zip(words, words[1:], words[2:], strict=False))
