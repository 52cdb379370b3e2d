"""Measuring a trial: as the plain encoder and its post steps would be scored, from vectors that are
made once.
"""

from pathlib import Path

import numpy as np
import pytest

from helpers.library import basis, page
from helpers.words import sentences
from isotrope.encoder import load
from isotrope.evaluation.document_tasks import SPANS, tasks_of_texts
from isotrope.evaluation.embed import embed_texts
from isotrope.evaluation.search import by_cosine
from isotrope.improvement.budget import Budget, Clock
from isotrope.improvement.candidates import Trial
from isotrope.improvement.decide import mean_score
from isotrope.improvement.measure import judging_folds, measure_trial
from isotrope.improvement.steps import (
    FOLDS,
    JUDGED_LENGTH,
    MAPS,
    POST_STEPS,
    WHITENINGS,
    Basis,
    speed_of,
    texts_read,
    words_read,
)
from isotrope.improvement.teachers import HYBRIDS, TeachingModel
from isotrope.post.ranking_map import with_map
from isotrope.text.pseudo_queries import PseudoQueries

TASKS = tasks_of_texts([page(place).text for place in range(40)], fewest=1)
# halves of random sentences share no words on purpose, so a search by words finds less
WORDLESS = tasks_of_texts([" ".join(sentences(3, seed=place)) for place in range(40)], fewest=1)


@pytest.mark.parametrize("prompts", [False, True])
def test_the_scores_are_those_of_the_model_that_would_be_saved(
    prompts: bool, tiny_model: Path, prompted_model: Path
) -> None:
    """Also of one that reads queries with words of their own."""
    model, fitted_on = load(prompted_model if prompts else tiny_model), basis(60)
    measured = measure_trial(model, Trial("keep"), TASKS, fitted_on, {})
    found, fitted = measured.scores, measured.steps
    assert set(found) == {"keep", *POST_STEPS}
    assert set(measured.hybrids) == set(HYBRIDS)
    for name, step in Trial("keep").candidates():
        encoder = model
        if step:
            encoder = fitted[name].after(model)
        for task in TASKS:
            np.testing.assert_allclose(
                found[name][task.name], task.score(encoder), atol=1e-9, err_msg=name
            )


def test_each_document_judges_steps_that_were_fitted_without_it(tiny_model: Path) -> None:
    """What a fold says of a step is what a basis without its documents would give."""
    model, whole = load(tiny_model), basis(240)
    tasks = [task for task in TASKS if task.name == SPANS]
    folds = judging_folds(whole, tasks)
    assert [[task.name for task in fold.tasks] for fold in folds] == [[SPANS]] * FOLDS
    found = measure_trial(model, Trial("keep"), tasks, whole, {}, folds=folds)
    assert set(found.crossed) == {"keep", *POST_STEPS} - {"map of all texts"}
    assert sorted(set(found.crossed_of[SPANS].tolist())) == list(range(240)), (
        "every document judges"
    )
    first = folds[1]
    assert not {text for page_ in whole.pages[1::FOLDS] for text in page_.paragraphs} & set(
        first.basis.documents
    )
    alone = measure_trial(model, Trial("keep"), first.tasks, first.basis, {})
    size = first.tasks[0].size
    for name, scores in found.crossed.items():
        np.testing.assert_allclose(
            scores[SPANS][size : 2 * size], alone.scores[name][SPANS], atol=1e-9, err_msg=name
        )


def test_a_step_that_cannot_be_fitted_is_left_out(tiny_model: Path) -> None:
    tasks = tasks_of_texts(sentences(4), fewest=1)
    few = Basis(["one"], PseudoQueries(["one"], [0], ["span"]), 0)
    assert set(measure_trial(load(tiny_model), Trial("keep"), tasks, few, {}).scores) == {"keep"}, (
        "one text has no variance, and nothing to rank"
    )


def test_a_map_is_no_candidate_where_bm25_does_not_help_the_search(tiny_model: Path) -> None:
    found = measure_trial(load(tiny_model), Trial("keep"), WORDLESS, basis(60), {})
    assert (found.taught_by, found.rankings) == ([], None)
    assert not set(MAPS) & found.scores.keys()
    assert set(WHITENINGS) < found.scores.keys()


def test_a_model_that_judges_better_teaches_and_a_worse_one_does_not(tiny_model: Path) -> None:
    """The better one's rankings are the lists, where BM25 does not help; what it finds first is
    among them.
    """
    fitted_on = basis(60)
    known = embed_texts(
        load(tiny_model), *texts_read(WORDLESS, fitted_on, POST_STEPS), JUDGED_LENGTH
    )
    score = mean_score({task.name: task.score(known) for task in WORDLESS})
    teachers = {
        "better": TeachingModel(known, score + 0.1),
        "worse": TeachingModel(known, score - 0.1),
    }
    found = measure_trial(load(tiny_model), Trial("keep"), WORDLESS, fitted_on, teachers)
    assert found.taught_by == ["better"]
    assert set(MAPS) < found.scores.keys()
    assert found.rankings is not None
    cosines = by_cosine(found.rankings.asked, found.rankings.documents)(slice(None))
    rows = np.arange(len(cosines))
    cosines[rows, fitted_on.asked.own] = -2
    assert found.rankings.lists.scores.max() == pytest.approx(1), (
        "the weights of all teachers sum to 1"
    )
    assert (found.rankings.lists.documents == cosines.argmax(axis=1)[:, None]).any(axis=1).all()


def test_a_model_with_a_route_gets_no_other_map_of_queries(tiny_model: Path) -> None:
    model = load(tiny_model)
    dim = model.get_embedding_dimension() or 0
    found = measure_trial(
        with_map(model, np.zeros((dim, dim))), Trial("keep"), TASKS, basis(60), {}
    ).scores
    assert set(MAPS) & found.keys() == {"map of all texts"}


def test_a_part_of_a_basis_has_its_own_queries() -> None:
    whole = basis(60)
    part = whole.part(500)
    assert len(part.documents) == 20
    assert len(part.asked.texts) == len(part.asked.documents) > 20
    for text, document in zip(part.asked.texts, part.asked.documents, strict=True):
        assert text in part.documents[document]


def test_the_speed_is_that_of_a_few_texts(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["a b c", "one two " * 100] * 20
    assert words_read(texts) == 20 * (3 + JUDGED_LENGTH)
    ticks = iter((1.0, 2.0))
    monkeypatch.setattr(Budget, "clock", Clock(lambda: next(ticks, 2.0), None, None))
    assert speed_of(load(tiny_model), texts) == words_read(texts[:32]), "32 texts in one second"
