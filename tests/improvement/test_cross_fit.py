"""Cross-fitting: a document judges a step only if the step was fitted without it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.library import page
from isotrope.encoder import load
from isotrope.evaluation.embed import Embeddings, embed_texts
from isotrope.improvement.candidates import Candidate
from isotrope.improvement.cross_fit import FOLDS, Fold, cross_fit, make_folds
from isotrope.improvement.judge import Judge, embed_tasks
from isotrope.improvement.measure import RaceFiles, measure_candidate
from isotrope.improvement.plan import Plan
from isotrope.improvement.scores import KEEP, CandidateTable
from isotrope.improvement.steps import QUERY_MAP, WHITENINGS, FittedStep, FittingSet
from isotrope.improvement.tasks import tasks_from_documents, texts_to_encode

SIZE = 90
PAGES = [page(place) for place in range(SIZE)]
TASKS = tasks_from_documents([page(1000 + place) for place in range(40)], 0)


class Library:
    """Documents in memory, which are read by their rows."""

    def each(self, rows: Any) -> Any:
        return (PAGES[row] for row in rows)

    def __len__(self) -> int:
        return SIZE


def folds_of(fitting_set: FittingSet, count: int, tasks: list[str]) -> list[Fold]:
    return make_folds(Library(), fitting_set, count, tasks)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def fitting_set() -> FittingSet:
    rows = np.arange(3, SIZE)
    return FittingSet.of(Library(), rows, 0)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def tasks() -> list[str]:
    """The names of what these documents can make."""
    return [task.name for task in TASKS.tasks]


def encode(fitting_set: FittingSet, folds: list[Fold], model: Any) -> Embeddings:
    fold_tasks = [task for fold in folds for task in fold.task_set.tasks]
    return embed_texts(model, *texts_to_encode(fold_tasks, fitting_set, list(WHITENINGS)))


def test_no_document_of_a_fold_is_fitted_on(fitting_set: FittingSet, tasks: list[str]) -> None:
    folds = folds_of(fitting_set, len(fitting_set.documents), tasks)
    assert len(folds) == FOLDS
    judged = []
    for fold in folds:
        fitted_on = set(fold.fitting_set.rows.tolist())
        judging = set(fitting_set.rows.tolist()) - fitted_on
        judged += sorted(judging)
        assert fold.fitting_set.documents == [PAGES[row].text for row in fold.fitting_set.rows]
    assert sorted(judged) == fitting_set.rows.tolist()  # each of them judges once


def test_as_many_documents_judge_as_the_plan_says(
    fitting_set: FittingSet, tasks: list[str]
) -> None:
    folds = folds_of(fitting_set, 45, tasks)
    left = [len(fitting_set.documents) - len(fold.fitting_set.documents) for fold in folds]
    assert sum(left) == 45


def test_there_are_no_folds_if_a_task_cannot_be_made(fitting_set: FittingSet) -> None:
    assert folds_of(fitting_set, 60, ["a task that nobody makes"]) == []


def test_a_step_that_changes_nothing_scores_as_the_model(
    fitting_set: FittingSet, tasks: list[str], tiny_model: Path
) -> None:
    folds = folds_of(fitting_set, 60, tasks)
    embeddings = encode(fitting_set, folds, load(tiny_model))
    width = embeddings.vectors.shape[1]
    same = FittedStep(np.zeros(width), np.eye(width))
    cross_fitted = cross_fit(embeddings, {"map": QUERY_MAP}, folds, lambda *_: same)
    for task in tasks:
        cases = cross_fitted.judging.scores[KEEP][task]
        np.testing.assert_allclose(cross_fitted.judging.scores["map"][task], cases)
        assert len(cross_fitted.judging.documents[task]) == len(cases)


def test_each_fold_fits_its_own_step(
    fitting_set: FittingSet, tasks: list[str], tiny_model: Path
) -> None:
    folds = folds_of(fitting_set, 60, tasks)
    embeddings = encode(fitting_set, folds, load(tiny_model))
    width = embeddings.vectors.shape[1]
    fitted_on: list[FittingSet] = []

    def fit(_: str, of: FittingSet) -> FittedStep:
        fitted_on.append(of)
        return FittedStep(np.zeros(width), np.eye(width))

    steps = {"whitened": "soft whitening", "slow": "map of all texts"}
    cross_fitted = cross_fit(embeddings, steps, folds, fit)
    assert [of.rows.tolist() for of in fitted_on] == [f.fitting_set.rows.tolist() for f in folds]
    # Only quick steps are fitted again.
    assert set(cross_fitted.judging.scores) == {KEEP, "whitened"}


def test_one_fold_chooses_and_the_others_judge(
    fitting_set: FittingSet, tasks: list[str], tiny_model: Path
) -> None:
    folds = folds_of(fitting_set, 60, tasks)
    embeddings = encode(fitting_set, folds, load(tiny_model))
    cross_fitted = cross_fit(embeddings, {}, folds, lambda *_: None)
    cases = [len(fold.task_set.documents[tasks[0]]) for fold in folds]
    assert len(cross_fitted.choosing.documents[tasks[0]]) == cases[0]
    assert len(cross_fitted.judging.documents[tasks[0]]) == sum(cases[1:])


def test_documents_of_two_parts_are_different_documents() -> None:
    first, second = (CandidateTable({}, {"a": np.array(ids)}) for ids in ([0, 0, 1], [0, 1, 1]))
    assert first.joined(second).documents["a"].tolist() == [0, 0, 1, 2, 3, 3]


def test_more_documents_judge_a_quick_step(
    fitting_set: FittingSet, tasks: list[str], tiny_model: Path, tmp_path: Path
) -> None:
    """They are measured with the model as it is, kept in the race's files, and judge."""
    model = load(tiny_model)
    folds = folds_of(fitting_set, 60, tasks)
    keep = Candidate(name=KEEP, steps=("soft whitening",))
    measured = measure_candidate(model, keep, TASKS, fitting_set, {}, folds)
    files = RaceFiles.of(tmp_path, Plan(choosing=40, judging=40))
    files.write(keep, measured)
    read = files.read(keep)
    assert read is not None

    after = measured.steps["soft whitening"].add_to(model)
    before, after = (embed_tasks(each, TASKS) for each in (model, after))
    alone = Judge(TASKS, before, after, "soft whitening").compare_models()
    judge = Judge(TASKS, before, after, "soft whitening", read.cross_fitted.judging)
    assert judge.compare_models().cases > alone.cases
    other = Judge(TASKS, before, after, "another candidate", read.cross_fitted.judging)
    assert other.compare_models().cases == alone.cases
