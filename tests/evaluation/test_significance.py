"""The verdict at the end of a run rests on this test: it must not cry "better" at noise, nor miss
what is plain.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr, ttest_1samp, ttest_rel

from helpers.refusals import refused
from isotrope.evaluation.significance import (
    _differences,
    compare,
    compare_documents,
    compare_means,
)
from isotrope.evaluation.verdict import Verdict
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
        with refused("different-tasks"):
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


def documents_of(counts: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Differences of cases (N,), each with a part that its document's cases share, and their documents."""
    generator = np.random.default_rng(seed)
    documents = np.repeat(np.arange(len(counts)), counts)
    shared = generator.normal(0.2, 1, len(counts))[documents]
    return shared + generator.normal(0, 0.3, len(documents)), documents


def test_one_case_a_document_is_the_paired_t_test() -> None:
    generator = np.random.default_rng(0)
    old = generator.random(40)
    new = old + generator.normal(0.05, 0.2, 40)
    found = compare_means(old, new)
    expected = ttest_rel(new, old)
    bounds = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx((bounds.low, bounds.high))


def test_cases_of_one_document_go_together() -> None:
    """With equally many cases a document, the test is a t test of the documents' means."""
    values, documents = documents_of([3] * 30)
    found = compare_documents({"a": 0 * values}, {"a": values}, {"a": documents})
    expected = ttest_1samp(values.reshape(30, 3).mean(axis=1), 0).confidence_interval(0.95)
    assert found.cases == 30
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_a_task_that_is_given_twice_says_no_more() -> None:
    values, documents = documents_of([1, 2, 3, 4] * 10)
    once = compare_documents({"a": 0 * values}, {"a": values}, {"a": documents})
    twice = compare_documents(
        {"a": 0 * values, "b": 0 * values},
        {"a": values, "b": values},
        {"a": documents, "b": documents},
    )
    assert (twice.low, twice.high) == pytest.approx((once.low, once.high))
    apart = compare_documents(
        {"a": 0 * values, "b": 0 * values},
        {"a": values, "b": values},
        {"a": documents, "b": documents + 40},
    )
    assert apart.high - apart.low < 0.8 * (once.high - once.low)


def test_an_interval_of_unequal_documents_covers_the_truth() -> None:
    """Of 400 intervals, 380 should hold the true mean; fewer than 366 has probability 0.1 %."""
    covered = 0
    for seed in range(400):
        counts = np.random.default_rng(seed).integers(1, 6, 30).tolist()
        values, documents = documents_of(counts, seed)
        found = compare_documents({"a": 0 * values}, {"a": values}, {"a": documents})
        covered += found.low <= 0.2 <= found.high
    assert covered >= 366


def test_fewer_than_six_changes_are_no_evidence() -> None:
    old = np.zeros(500)
    for changes, verdict in ((5, "not significant"), (6, "better")):
        new = old.copy()
        new[:changes] = 1.0
        assert compare_means(old, new).verdict == verdict


@pytest.mark.parametrize(("count", "verdict"), [(9, "not tested"), (10, "better")])
def test_too_few_queries_are_not_tested(count: int, verdict: str) -> None:
    gains = np.linspace(0.5, 0.6, count)
    assert compare_means(np.zeros(count), gains).verdict == verdict


@pytest.mark.parametrize(("count", "verdict"), [(49, "not tested"), (50, "better")])
def test_too_few_pairs_are_not_tested(count: int, verdict: str) -> None:
    bad, good = model(3.0, 1, count, ("one",)), model(0.01, 2, count, ("one",))
    assert compare(bad, good).verdict == verdict


def test_a_verdict_of_too_few_cases_says_how_many_are_needed() -> None:
    found = compare_means(np.zeros(7), np.ones(7))
    verdict = Verdict.of(found, before="old", after="new", judge="7 queries", measure="nDCG")
    assert (verdict.word, verdict.low, verdict.p) == ("not tested", None, None)
    assert "at least 10" in str(verdict)
