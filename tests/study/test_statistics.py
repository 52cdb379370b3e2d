"""Tests over seeds against their definitions, scipy and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from isotrope.evaluation.significance import compare, compare_draws, resample
from isotrope.study.statistics import detectable, holm, paired_test, power, seeds_needed


def test_holm_is_the_stepwise_definition() -> None:
    def naive(values: list[float]) -> list[float]:
        """Reject at level a while p of rank i is at most a / (m − i): the smallest such a, by search."""
        m, found = len(values), []
        order = sorted(values)
        for value in values:
            needed = max((m - i) * p for i, p in enumerate(order[: order.index(value) + 1]))
            found.append(min(1.0, needed))
        return found

    generator = np.random.default_rng(0)
    for _ in range(50):
        values = generator.uniform(0, 0.3, size=generator.integers(1, 9)).tolist()
        assert holm(values) == pytest.approx(naive(values))
    assert holm([0.02, None, 0.03]) == pytest.approx([0.04, None, 0.04])


def test_the_paired_test_is_scipys() -> None:
    generator = np.random.default_rng(1)
    a, b = generator.normal(1, 1, 6), generator.normal(0, 1, 6)
    found, expected = paired_test(a.tolist(), b.tolist(), margin=0.5), stats.ttest_rel(a, b)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert found.p_margin == pytest.approx(stats.ttest_1samp(a - b, 0.5).pvalue)
    assert paired_test([1.0, 2.0], [0.0, 0.5]).p is None
    assert paired_test([1.0], [0.0]).sd is None
    assert (paired_test([1, 2, 3], [1, 2, 3]).p, paired_test([2, 3, 4], [1, 2, 3]).p) == (1.0, 0.0)


def test_what_n_seeds_can_show_agrees_with_simulation() -> None:
    n, sd = 5, 0.7
    least = detectable(sd, n)
    draws = np.random.default_rng(2).normal(least, sd, (20_000, n))
    assert np.mean(stats.ttest_1samp(draws, 0, axis=1).pvalue < 0.05) == pytest.approx(0.8, abs=0.01)
    needed = seeds_needed(0.5, sd)
    assert needed is not None
    assert power(0.5, sd, needed) >= 0.8 > power(0.5, sd, needed - 1)
    assert seeds_needed(0.001, 10.0) is None
    assert seeds_needed(0.5, 0.02) == 3, "where scipy's lower tail is NaN"
    assert all(0.8 <= power(0.5, 0.3, n) <= 1 for n in range(6, 200))


def test_draws_kept_apart_compare_as_the_two_models_would_together() -> None:
    generator = np.random.default_rng(3)
    gold = generator.integers(0, 6, 80).astype(float)
    old, new = gold + generator.normal(0, 3, 80), gold + generator.normal(0, 2, 80)
    together = compare({"a": (gold, old)}, {"a": (gold, new)})
    before, after = (resample({"a": (gold, values)})["a"] for values in (old, new))
    assert compare_draws(together.before, together.after, before, after) == together.per_task["a"]
