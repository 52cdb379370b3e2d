"""How often is a verdict by few labels wrong, if the two models do not differ?

    python -m benchmarks.search.few_labels        # docs/results/few-labels/result.json

Two kinds of labels are simulated, each with many pairs of models whose true scores are equal:

- Queries: the score is the mean of reciprocal ranks. A query's ranks by the two models come from
  noisy margins that are correlated. Compared are the percentile bootstrap (as before), the t test,
  an exact test of signs, and the t test of which at least six queries must have changed.
- Graded pairs: the score is Spearman's correlation. The cosines of the two models follow the grades
  with noise that is correlated. Grades are 0, 0.5 … 5, or yes and no, where a fifth is yes and
  the noise is heavy-tailed. Compared is the paired bootstrap.

A verdict should be wrong (better or worse) in at most 5 of 100 cases.
"""

import json
from collections.abc import Mapping
from functools import partial

import numpy as np
from scipy import stats

from benchmarks.paths import RESULTS
from isotrope.evaluation.significance import FEWEST_CHANGED, compare, compare_means
from isotrope.types import Matrix, Vector

TARGET = RESULTS / "few-labels" / "result.json"
SEED = 0
RACES = 2000  # pairs of models for each number of queries
PAIR_RACES = 1000  # and for each number of graded pairs
RESAMPLES = 500  # of a bootstrap
QUERIES = (2, 3, 5, 7, 10, 15, 20, 30, 50, 100)
PAIRS = (10, 20, 30, 50, 100)
GRADES = ("0 to 5", "yes or no")
CORRELATIONS = (0.5, 0.9)  # of the two models' errors
DOCUMENTS = 50  # that a query searches
LEVEL = 0.05


def reciprocal_ranks(
    generator: np.random.Generator, count: int, correlation: float
) -> tuple[Vector, Vector]:
    """Those of two equally good models (N,), (N,): how many of 50 documents have a higher score."""
    shared = generator.normal(size=(count, DOCUMENTS))
    ranks = []
    for _ in range(2):
        own = generator.normal(size=(count, DOCUMENTS))
        scores = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
        scores[:, 0] += 2.0  # the relevant document
        places = 1 + (scores[:, 1:] > scores[:, :1]).sum(axis=1)
        ranks.append(np.where(places <= 10, 1 / places, 0.0))
    return ranks[0], ranks[1]


def bootstrap_is_wrong(generator: np.random.Generator, change: Vector) -> bool:
    """Whether the percentile interval of the mean change (N,) leaves 0 out."""
    picks = generator.integers(len(change), size=(RESAMPLES, len(change)))
    low, high = np.quantile(change[picks].mean(axis=1), [LEVEL / 2, 1 - LEVEL / 2])
    return bool(low > 0 or high < 0)


def sign_test_is_wrong(change: Vector) -> bool:
    """Whether the exact test of the signs of the changes that are not 0 is significant."""
    changed = change[change != 0]
    if not len(changed):
        return False
    return bool(stats.binomtest(int((changed > 0).sum()), len(changed)).pvalue <= LEVEL)


def t_test_is_wrong(change: Vector) -> bool:
    """Whether a plain t test of the changes is significant."""
    if not np.ptp(change):
        return bool(change[0] != 0)
    return bool(stats.ttest_1samp(change, 0).pvalue <= LEVEL)


def query_shares(count: int, correlation: float) -> dict[str, float]:
    """The share of wrong verdicts by each test."""
    generator = np.random.default_rng([SEED, count, int(100 * correlation)])
    wrong = dict.fromkeys(("bootstrap", "t test", "signs", "rule"), 0)
    for _ in range(RACES):
        old, new = reciprocal_ranks(generator, count, correlation)
        change = new - old
        is_t_wrong = t_test_is_wrong(change)
        wrong["bootstrap"] += bootstrap_is_wrong(generator, change)
        wrong["t test"] += is_t_wrong
        wrong["signs"] += sign_test_is_wrong(change)
        wrong["rule"] += is_t_wrong and int(np.count_nonzero(change)) >= FEWEST_CHANGED
        if count >= 10:
            verdict = compare_means(old, new).verdict
            assert (verdict in ("better", "worse")) == (
                is_t_wrong and np.count_nonzero(change) >= FEWEST_CHANGED
            )
    return {name: count / RACES for name, count in wrong.items()}


def pair_share(count: int, correlation: float, grades: str) -> float:
    """The share of wrong verdicts by the paired bootstrap over graded pairs."""
    generator = np.random.default_rng([SEED, count, int(100 * correlation)])
    is_binary = grades == "yes or no"
    wrong = 0
    for _ in range(PAIR_RACES):
        gold = generator.integers(0, 11, size=count) / 2
        if is_binary:
            gold = (generator.random(count) < 0.2).astype(float)
        if not np.ptp(gold):
            continue
        cosines = _cosines(generator, gold, correlation, is_binary)
        found = compare({"": (gold, cosines[0])}, {"": (gold, cosines[1])}, RESAMPLES)
        wrong += found.low > 0 or found.high < 0
    return wrong / PAIR_RACES


def _cosines(
    generator: np.random.Generator, gold: Vector, correlation: float, heavy_tails: bool
) -> Matrix:
    """Those of two equally good models (2, N)."""
    draw = partial(generator.standard_t, 2) if heavy_tails else generator.normal
    shared = draw(size=len(gold))
    own = draw(size=(2, len(gold)))
    noise = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
    return np.asarray(stats.zscore(gold) + noise)


def main() -> None:
    """Write the shares of wrong verdicts."""
    queries: Mapping[str, dict[str, float]] = {
        f"{count} queries, correlation {correlation}": query_shares(count, correlation)
        for count in QUERIES
        for correlation in CORRELATIONS
    }
    pairs = {
        f"{count} pairs, {grades}, correlation {correlation}": {
            "bootstrap": pair_share(count, correlation, grades)
        }
        for count in PAIRS
        for grades in GRADES
        for correlation in CORRELATIONS
    }
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "races": RACES,
        "pair_races": PAIR_RACES,
        "resamples": RESAMPLES,
        "queries": queries,
        "pairs": pairs,
    }
    TARGET.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
