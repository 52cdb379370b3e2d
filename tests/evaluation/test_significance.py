"""The verdict at the end of a run rests on this test: it must not cry "better" at noise, nor miss
what is plain.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from isotrope.errors import UserError
from isotrope.evaluation.significance import _differences, compare, compare_means
from oracle.similarity import spearman as naive_spearman


def model(noise, seed, n=400, tasks=("one", "two")):
    """Gold scores that depend on the task alone, and cosines that follow them with this much noise."""
    result = {}
    for number, task in enumerate(tasks):
        gold = np.random.default_rng(number).integers(0, 26, n) / 5
        result[task] = (
            gold,
            gold / 5 + noise * np.random.default_rng([seed, number]).standard_normal(n),
        )
    return result


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 40), st.integers(2, 8), st.integers(0, 1000))
def test_vectorised_spearman_equals_scipy_on_ties(n, levels, seed):
    """Each resample drawn and scored by itself: a plain bootstrap."""
    generator = np.random.default_rng(seed)
    x, y = generator.integers(0, levels, (2, n)).astype(float)
    picks = np.random.default_rng(3).integers(n, size=(5, n))
    for got, pick in zip(
        _differences(None, (x, y), 5, np.random.default_rng(3)), picks, strict=True
    ):
        a, b = x[pick], y[pick]
        if np.ptp(a) == 0 or np.ptp(b) == 0:
            assert got == 0
        else:
            assert got == pytest.approx(naive_spearman(list(a), list(b)), abs=1e-12)


def test_clear_winners_and_losers():
    """Swapping the models changes the sign alone."""
    good, bad = model(0.1, seed=1), model(0.6, seed=2)
    up, down = compare(bad, good, resamples=500, seed=7), compare(good, bad, resamples=500, seed=7)
    assert (up.verdict, down.verdict) == ("better", "worse")
    assert up.low > 0
    assert up.p == down.p < 0.01
    assert up.difference == -down.difference
    assert (up.low, up.high) == pytest.approx((-down.high, -down.low), abs=1e-15)
    assert (up.before, up.after) == (down.after, down.before)
    for task, single in up.per_task.items():
        assert single.verdict == "better"
        assert single.before == pytest.approx(spearmanr(*bad[task])[0], abs=1e-12)
        assert single.after == pytest.approx(spearmanr(*good[task])[0], abs=1e-12)


def test_equally_good_models_are_rarely_told_apart():
    """Two-sided at 5 %: of 60 pairs of equally noisy models about 3 may differ; 10 or more has
    probability 0.1 %.
    """
    verdicts = [
        compare(
            model(0.4, 2 * s, 150, ("one",)), model(0.4, 2 * s + 1, 150, ("one",)), resamples=200
        ).verdict
        for s in range(60)
    ]
    assert sum(verdict != "not significant" for verdict in verdicts) < 10


def test_interval_p_and_verdict_agree():
    for resamples in (100, 199, 1000):
        for noise in (0.30, 0.32, 0.33, 0.36):
            result = compare(model(0.3, seed=1), model(noise, seed=2), resamples=resamples)
            assert (
                (result.p <= 0.05)
                == (result.low > 0 or result.high < 0)
                == (result.verdict != "not significant")
            )


def test_same_seed_same_numbers_whatever_the_company():
    a, b = model(0.3, seed=1), model(0.3, seed=2)
    both = compare(a, b, resamples=200, seed=5)
    assert both == compare(a, b, resamples=200, seed=5)
    assert both.low != compare(a, b, resamples=200, seed=6).low
    alone = compare({"two": a["two"]}, {"two": b["two"]}, resamples=200, seed=5)
    assert alone.per_task["two"] == both.per_task["two"]
    for other in ({"one": b["one"]}, model(0.3, 1, n=399)):
        with pytest.raises(UserError, match="different tasks"):
            compare(a, other)


def test_tasks_are_resampled_independently():
    """The same resamples in every task would add their errors up instead of letting them cancel."""
    (a,), (b,) = model(0.3, 1, tasks=("one",)).values(), model(0.3, 2, tasks=("one",)).values()
    result = compare({"one": a, "two": a}, {"one": b, "two": b}, resamples=300)
    assert result.per_task["one"].low != result.per_task["two"].low
    assert result.high - result.low < 0.85 * (
        result.per_task["one"].high - result.per_task["one"].low
    )


def test_a_constant_model_is_worse_without_a_warning():
    good = model(0.3, seed=1)
    flat = {task: (gold, np.ones_like(gold)) for task, (gold, _) in good.items()}
    with np.errstate(all="raise"):
        assert compare(good, flat, resamples=100).verdict == "worse"


def test_means_are_compared_on_the_same_cases_and_tasks_by_themselves() -> None:
    generator = np.random.default_rng(0)
    old = {name: generator.random(300) for name in "ab"}
    new = {name: values + 0.1 + 0.01 * generator.random(300) for name, values in old.items()}
    better, same = compare(old, new), compare_means(old["a"], old["a"])
    assert (better.verdict, same.verdict) == ("better", "not significant")
    assert (same.difference, same.low, same.high, same.p) == (0, 0, 0, 1)
    assert better.low <= better.difference <= better.high
    assert better.difference == pytest.approx(
        np.mean([new[n].mean() - old[n].mean() for n in "ab"])
    )
    assert better.per_task["a"] == compare({"a": old["a"]}, {"a": new["a"]}).per_task["a"]
    assert better.per_task["a"].difference == compare_means(old["a"], new["a"]).difference
