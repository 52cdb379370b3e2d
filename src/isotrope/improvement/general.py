"""What a choice changes on general English. It has no part in the choice."""

import os
from pathlib import Path

from isotrope.evaluation.sets.senteval import load_sts
from isotrope.evaluation.sets.similarity import similarity_pairs
from isotrope.evaluation.significance import Comparison, compare
from isotrope.evaluation.sts import SimilaritySets, main_pairs, pair_similarities
from isotrope.types import Encoder

SHIPPED = "similarity"  # the graded pairs that ship
TEST_SETS = ("STSBenchmark", "SICKRelatedness")  # if a data folder is known
MOST_TIME = 0.05  # of the time: what reading these pairs may take


def shipped_pairs() -> SimilaritySets:
    """The graded pairs that ship, as the only set."""
    return {SHIPPED: {"test": similarity_pairs()}}


def general_pairs(data: str | Path | None = None) -> SimilaritySets:
    """The shipped graded pairs; also the test pairs of STS-B and SICK-R, if a data folder is known
    or named.
    """
    sets = dict(shipped_pairs())
    folder = data or os.environ.get("ISOTROPE_DATA")
    if folder:
        sets.update({name: load_sts(folder, name, ["test"]) for name in TEST_SETS})
    return sets


def general_words(sets: SimilaritySets) -> int:
    """Words of all pairs."""
    texts = {text for parts in sets.values() for pairs in parts.values() for text in pairs.texts}
    return sum(len(text.split()) for text in texts)


def affordable_pairs(sets: SimilaritySets, seconds: float, reading: float) -> SimilaritySets:
    """The sets, or only the shipped pairs if two models take too long to read the others.

    ``seconds`` is the time of the race, and ``reading`` the words that a model reads in a second.
    """
    if 2 * general_words(sets) / reading <= MOST_TIME * seconds:
        return sets
    return shipped_pairs()


def general_change(before: Encoder, after: Encoder, sets: SimilaritySets) -> Comparison:
    """Compare two models on these pairs, over all and set by set."""
    old = main_pairs(sets, pair_similarities(before, sets))
    new = main_pairs(sets, pair_similarities(after, sets))
    return compare(old, new)
