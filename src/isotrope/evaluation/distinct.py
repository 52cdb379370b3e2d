"""Near-duplicates among texts: those that share half of their word triples."""

from collections.abc import Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

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
    known: dict[str, int] = {}
    triples = []
    for text in texts:
        ids = np.array([known.setdefault(word, len(known)) for word in words_of(text.casefold())[0]], dtype=np.int64)
        triples.append(np.unique(ids[:-2] << 42 | ids[1:-1] << 21 | ids[2:]))
    sizes = np.array([len(each) for each in triples])
    _, columns, counts = np.unique(np.concatenate(triples), return_inverse=True, return_counts=True)
    rows = np.repeat(np.arange(len(texts)), sizes)
    common = np.zeros((len(texts), len(texts)), dtype=np.float32)
    # Of frequent triples a dense product is faster, of others a sparse one; a triple of one text alone is in none.
    often = counts > OFTEN * len(texts)
    for chosen, dense in ((often, True), (~often & (counts > 1), False)):
        held = chosen[columns]
        place = np.cumsum(chosen) - 1  # of a column among the chosen
        has = csr_array(
            (np.ones(held.sum(), np.float32), (rows[held], place[columns[held]])), shape=(len(texts), chosen.sum())
        )
        common += has.toarray() @ has.toarray().T if dense else (has @ has.T).toarray()
    np.fill_diagonal(common, sizes)
    return np.asarray(common / (sizes[:, None] + sizes[None, :] - common))
