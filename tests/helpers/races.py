"""Races of `improve` that take seconds."""

import numpy as np
import pytest

from isotrope.evaluation.sets.similarity import similarity_pairs
from isotrope.improvement import candidates


def judge_general_english_by_few_pairs(patch: pytest.MonkeyPatch) -> None:
    """General English is looked at by 40 graded pairs."""
    some = similarity_pairs().rows(np.arange(40))
    patch.setattr("isotrope.improvement.general.similarity_pairs", lambda: some)


def train_two_candidates(patch: pytest.MonkeyPatch) -> None:
    """Two trainings of a few steps."""
    recipes_for = candidates.recipes_for
    patch.setattr(
        "isotrope.improvement.prepare.recipes_for", lambda *given: recipes_for(*given)[:2]
    )
    patch.setattr("isotrope.improvement.plan.FEWEST_PAIRS", 64)
    patch.setattr("isotrope.improvement.prepare.MOST_ROUNDS", 2)
