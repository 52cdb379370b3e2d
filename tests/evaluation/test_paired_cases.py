"""Two models compared on one suite, case by case."""

from __future__ import annotations

import pytest

from isotrope.errors import UserError
from isotrope.evaluation.suite import SUITES, compare_cases, compare_pairs, main_scores
from wordbag import WORDS, Bag, own_pairs, results_of


@pytest.mark.parametrize("suite", ["sts", "ranking"])
def test_comparison_case_by_case(suite: str) -> None:
    pairs = own_pairs(400)
    good, bad = (results_of(Bag(known), suite, pairs) for known in (len(WORDS), 3))
    judge = SUITES[suite].compare
    assert judge is not None
    there, back, same = judge(bad, good, 0), judge(good, bad, 0), judge(good, good, 0)
    assert there.verdict == "better"
    assert back.verdict == "worse"
    assert (same.verdict, same.difference) == ("not significant", 0)
    assert there.after == pytest.approx(main_scores(suite, good)["mine"])
    with pytest.raises(UserError, match="different tasks"):
        judge(good, {"yours": good["mine"]}, 0)


def test_judges_find_the_cases_of_every_suite() -> None:
    results = {"t": {"per_sample": {"correct": [0, 1, 1]}, "per_pair": {"gold": [1, 2, 3], "cosine": [0.1, 0.3, 0.2]}}}
    assert compare_cases("per_sample", "correct")(results, results, 0).before == pytest.approx(2 / 3)
    assert compare_pairs(results, results, 0).before == pytest.approx(0.5)
