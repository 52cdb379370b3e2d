"""Both tests, and the rule of the verdict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isotrope.evaluation.sets.similarity import similarity_pairs
from isotrope.evaluation.significance import Comparison
from isotrope.quickstart.measures import LEVEL, ModelMeasures, compare_measures, decide


def test_both_tests_see_a_difference_where_there_is_one_and_none_where_there_is_none() -> None:
    generator, gold = np.random.default_rng(0), similarity_pairs().gold
    old = ModelMeasures(generator.random(500), gold + generator.normal(size=330) * 3, 0, 0)
    new = ModelMeasures(
        np.minimum(old.reciprocal + 0.1 * generator.random(500), 1), gold + generator.normal(size=330), 0, 0
    )
    assert [t.verdict for t in compare_measures(old, new).values()] == ["better", "better"]
    assert [t.verdict for t in compare_measures(new, old).values()] == ["worse", "worse"]
    assert [t.verdict for t in compare_measures(old, old).values()] == ["not significant", "not significant"]
    test = compare_measures(old, new)["retrieval"]
    change = new.reciprocal - old.reciprocal
    error = 1.96 * change.std() / np.sqrt(500)  # the normal approximation of the same interval
    assert test.difference == pytest.approx(change.mean())
    assert (test.low, test.high) == pytest.approx((change.mean() - error, change.mean() + error), abs=0.15 * error)


@pytest.mark.parametrize(
    ("retrieval", "similarity", "expected"),
    [
        (("better", 0.001), ("not significant", 0.4), "better"),
        (("better", 0.001), ("better", 0.001), "better"),
        (("better", 0.001), ("worse", 0.001), "mixed"),
        (("not significant", 0.4), ("worse", LEVEL), "worse"),
        (("better", 0.04), ("not significant", 0.4), "not significant"),  # one of two tests: 5 % are not enough
        (("not significant", 0.1), ("not significant", 0.4), "not significant"),
    ],
)
def test_the_verdict_follows_its_rule(retrieval: Any, similarity: Any, expected: str) -> None:
    def test(verdict: Any, p: float) -> Comparison:
        return Comparison(0, 0, 0, 0, 0, p, 1000, verdict)

    assert decide({"retrieval": test(*retrieval), "similarity": test(*similarity)}) == expected
