"""What a model knew before: a check of general similarity that has no part in the choice."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from isotrope.evaluation.sets.senteval import load_sts
from isotrope.evaluation.sets.similarity import similarity_pairs
from isotrope.evaluation.significance import compare
from isotrope.evaluation.sts import Sets, main_pairs, similarities
from isotrope.types import Encoder

GRADED = "similarity"  # the graded pairs that ship
GUARDS = ("STSBenchmark", "SICKRelatedness")  # their test pairs, where a data folder is known
_MOST_TIME = 0.1  # of the time: what this check may take


def shipped_pairs() -> Sets:
    """The graded pairs that ship, as the only set."""
    return {GRADED: {"test": similarity_pairs()}}


def general_pairs(data: str | Path | None = None) -> Sets:
    """The shipped graded pairs; also the test pairs of STS-B and SICK-R, if a data folder is known.

    Args:
        data: the folder that holds ``senteval/``; None takes ISOTROPE_DATA.

    Raises:
        UserError: a data folder is named, and its pairs are missing or broken.
    """
    folder = data or os.environ.get("ISOTROPE_DATA")
    return {**shipped_pairs(), **({task: load_sts(folder, task, ["test"]) for task in GUARDS} if folder else {})}


def affordable_pairs(sets: Sets, seconds: float, speed: float) -> tuple[Sets, float]:
    """The sets, or the shipped pairs alone if the others take too long; and the seconds that this takes.

    Args:
        sets: as `general_pairs` gives them.
        seconds: the time of the whole race.
        speed: words that the model reads in a second.
    """
    wanted = 2 * _words(sets) / speed  # the model before, and the choice
    return (sets, wanted) if wanted <= _MOST_TIME * seconds else (shipped_pairs(), 2 * _words(shipped_pairs()) / speed)


def general_change(before: Encoder, after: Encoder, sets: Sets) -> dict[str, Any]:
    """What changes on these pairs: a `Comparison` as a dictionary, with each set under ``per_task``.

    Raises:
        UserError: a model gives no usable vectors.
    """
    old, new = (main_pairs(sets, similarities(encoder, sets)) for encoder in (before, after))
    return asdict(compare(old, new))


def _words(sets: Sets) -> int:
    pairs = [each for parts in sets.values() for each in parts.values()]
    return sum(len(text.split()) for text in {text for each in pairs for text in (*each.first, *each.second)})
