"""The verdict: "keep" and the chosen candidate on the documents that judge."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.library import page
from isotrope.encoder import load
from isotrope.evaluation.document_tasks import tasks_of_texts
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.improvement.judge import (
    Judge,
    choose_search,
    correct_for_number,
    embed_tasks,
    model_verdict,
    search_verdict,
)
from isotrope.improvement.scores import KEEP, CandidateTable
from isotrope.improvement.tasks import TaskSet

TASKS = TaskSet(tasks_of_texts([page(place).text for place in range(60)], fewest=1))


def judge_of(task_set: TaskSet, before: Any, after: Any, choice: str) -> Judge:
    return Judge(task_set, embed_tasks(before, task_set), embed_tasks(after, task_set), choice)


def compared(gain: float, cases: int = 60, spread: float = 0.05) -> Any:
    before = {"a": np.zeros(cases)}
    after = {"a": gain + spread * np.random.default_rng(0).standard_normal(cases)}
    return CandidateTable({KEEP: before, "map": after}).compare("map")


def test_a_gain_above_chance_is_better() -> None:
    verdict = model_verdict(compared(0.1), TASKS, "mine", "map", 9)
    assert (verdict.word, verdict.before, verdict.after) == ("better", "mine", "map")
    assert verdict.judge == "60 of your own documents"


@pytest.mark.parametrize("gain", [0.0, -0.1])
def test_no_gain_keeps_the_model_and_says_what_could_not_be_seen(gain: float) -> None:
    verdict = model_verdict(compared(gain), TASKS, "mine", "map", 9)
    assert verdict.word == "no difference found"
    assert "Keep mine: the best of 9 candidates is not" in verdict.advice
    assert "Differences under about" in verdict.advice


def test_too_few_cases_are_not_tested() -> None:
    verdict = model_verdict(compared(0.1, cases=8), TASKS, "mine", "map", 9)
    assert verdict.word == "not tested"
    assert "at least 10" in verdict.advice


def test_without_any_gain_nothing_is_judged() -> None:
    verdict = model_verdict(compared(-0.1), TASKS, "mine", "map", 9, gained=False)
    assert verdict.word == "no difference found"
    assert "none of 9 candidates gained" in verdict.advice


def test_two_equal_models_do_not_differ(tiny_model: Path) -> None:
    model = load(tiny_model)
    comparison = judge_of(TASKS, model, model, "same").compare_models()
    assert (comparison.difference, comparison.verdict) == (0.0, "not significant")


def test_the_models_are_compared_as_each_would_be_scored(tiny_model: Path) -> None:
    before, after = load(tiny_model, "cls"), load(tiny_model, "mean")
    comparison = judge_of(TASKS, before, after, "pooling mean").compare_models()
    task = TASKS.tasks[1]
    assert comparison.per_task[task.name].after == pytest.approx(task.score(after).mean())


def test_graded_pairs_are_compared_by_their_correlation(tiny_model: Path) -> None:
    texts = [page(place).text for place in range(60)]
    pairs = GradedPairs("mine", texts, texts[::-1], np.arange(60.0))
    before, after = load(tiny_model, "cls"), load(tiny_model, "mean")
    judge = judge_of(TaskSet([pairs]), before, after, "pooling mean")
    assert judge.compare_models().cases == 60


def searches(keep: float, keep_words: float, map_: float, map_words: float) -> tuple[str, float]:
    noise = np.random.default_rng(0).normal(0, 0.05, 60)
    scores = {
        KEEP: {0.0: {"a": noise + keep}, 0.3: {"a": noise + keep_words}},
        "map": {0.0: {"a": noise + map_}, 0.3: {"a": noise[::-1] + map_words}},
    }
    return choose_search("map", scores, {})


@pytest.mark.parametrize(
    ("means", "settings"),
    [
        ((0.3, 0.5, 0.4, 0.6), ("map", 0.3)),
        ((0.3, 0.5, 0.4, 0.505), (KEEP, 0.3)),
        ((0.3, 0.2, 0.4, 0.3), ("map", 0.0)),
        ((0.3, 0.2, 0.3, 0.2), (KEEP, 0.0)),
    ],
)
def test_a_search_takes_the_new_model_only_if_that_adds_to_bm25(
    means: tuple[float, float, float, float], settings: tuple[str, float]
) -> None:
    assert searches(*means) == settings


def test_the_search_is_judged_against_the_model_alone(tiny_model: Path) -> None:
    model = load(tiny_model)
    judge = judge_of(TASKS, model, model, KEEP)
    found = search_verdict(judge.compare_search(KEEP, 0.5), TASKS, "mine", (KEEP, 0.5))
    assert found.bm25_share == 0.5
    assert found.verdict.word == "better", "only words tell these documents apart"
    advice = found.verdict.advice
    assert advice.startswith("Keep the model and add 0.5 BM25: +")
    assert advice.endswith(" points on tasks made from your documents")


def test_the_search_says_if_labels_judged_it(tiny_model: Path) -> None:
    model, task_set = load(tiny_model), TaskSet([TASKS.tasks[1].as_retrieval_set()])
    judge = judge_of(task_set, model, model, KEEP)
    found = search_verdict(judge.compare_search(KEEP, 0.5), task_set, "mine", (KEEP, 0.5))
    assert found.verdict.advice.endswith(" points on your labels")


def test_a_search_that_is_not_better_leaves_everything_as_it_is() -> None:
    found = search_verdict(compared(0.0), TASKS, "mine", ("map", 0.3))
    assert (found.model, found.bm25_share) == (KEEP, 0.0)


def with_p(p: float, difference: float = 0.1) -> Any:
    return replace(compared(difference), p=p, verdict="better" if p <= 0.05 else "not significant")


@pytest.mark.parametrize(
    ("p_values", "corrected", "verdicts"),
    [
        ((0.04,), (0.04,), ("better",)),
        ((0.04, 0.5), (0.08, 0.5), ("not significant", "not significant")),
        ((0.02, 0.04), (0.04, 0.04), ("better", "better")),
        ((0.04, 0.02), (0.04, 0.04), ("better", "better")),
        ((0.03, 0.04), (0.06, 0.06), ("not significant", "not significant")),
    ],
)
def test_two_finalists_are_corrected_as_holm_does(
    p_values: tuple[float, ...], corrected: tuple[float, ...], verdicts: tuple[str, ...]
) -> None:
    found = correct_for_number([with_p(p) for p in p_values])
    assert tuple(round(each.p, 9) for each in found) == corrected
    assert tuple(each.verdict for each in found) == verdicts
