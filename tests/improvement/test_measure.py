"""Measuring a candidate: as the plain encoder and its post steps would be scored, from vectors that are
made once.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from helpers.library import fitting_set, page
from helpers.words import sentences
from isotrope.encoder import load
from isotrope.evaluation.document_tasks import DocumentTask, tasks_of_texts
from isotrope.evaluation.embed import Embeddings, embed_texts
from isotrope.evaluation.search import by_cosine
from isotrope.improvement.candidates import Candidate
from isotrope.improvement.clock import Clock
from isotrope.improvement.measure import (
    BM25_SHARES,
    CandidateScores,
    RaceFiles,
    measure_candidate,
)
from isotrope.improvement.scores import mean_score
from isotrope.improvement.speed import reading_speed, training_speed
from isotrope.improvement.steps import MAPS, POST_STEPS, QUERY_MAP, WHITENINGS, FittingSet
from isotrope.improvement.tasks import JUDGED_LENGTH, TaskSet, count_words, texts_to_encode
from isotrope.improvement.teachers import read_teacher
from isotrope.post.ranking_map import with_map
from isotrope.text.pseudo_queries import PseudoQueries

KEPT = Candidate(name="keep")
TASKS = tasks_of_texts([page(place).text for place in range(40)], fewest=1)
# halves of random sentences share no words on purpose, so a search by words finds less
WORDLESS = tasks_of_texts([" ".join(sentences(3, seed=place)) for place in range(40)], fewest=1)


def measure(
    model: SentenceTransformer,
    tasks: Sequence[DocumentTask] = TASKS,
    fitted_on: FittingSet | None = None,
    teachers: Mapping[str, Embeddings] | None = None,
    candidate: Candidate = KEPT,
) -> CandidateScores:
    fitted_on = fitted_on or fitting_set(60)
    return measure_candidate(model, candidate, TaskSet(tasks), fitted_on, teachers or {})


@pytest.mark.parametrize("prompts", [False, True])
def test_the_scores_are_those_of_the_model_that_would_be_saved(
    prompts: bool, tiny_model: Path, prompted_model: Path
) -> None:
    """Also of one that reads queries with words of their own."""
    model = load(prompted_model if prompts else tiny_model)
    measured = measure(model)
    assert set(measured.scores) == {"keep", *POST_STEPS}
    for name, step in KEPT.with_steps():
        encoder = measured.steps[name].add_to(model) if step else model
        for task in TASKS:
            expected = task.score(encoder)
            np.testing.assert_allclose(measured.scores[name][task.name], expected, atol=1e-9)


def test_a_search_with_bm25_is_scored_for_each_candidate_and_share(tiny_model: Path) -> None:
    measured = measure(load(tiny_model))
    assert set(measured.hybrids) == set(measured.scores)
    assert all(set(shares) == set(BM25_SHARES) for shares in measured.hybrids.values())


def test_a_step_that_cannot_be_fitted_is_left_out(tiny_model: Path) -> None:
    """One text has no variance, and nothing to rank."""
    tasks = tasks_of_texts(sentences(4), fewest=1)
    few = FittingSet(["one"], PseudoQueries(["one"], [0], ["span"]), 0, np.arange(1))
    assert set(measure(load(tiny_model), tasks, few).scores) == {"keep"}


def test_a_map_is_no_candidate_if_bm25_does_not_help_the_search(tiny_model: Path) -> None:
    measured = measure(load(tiny_model), WORDLESS)
    assert (measured.taught_by, measured.rankings) == ([], None)
    assert not set(MAPS) & measured.scores.keys()
    assert set(WHITENINGS) < measured.scores.keys()


def test_a_model_teaches_if_its_list_finds_more_and_a_worse_one_does_not(tiny_model: Path) -> None:
    """What the better list finds first is in the lists, without BM25, which does not help here."""
    fitted_on = fitting_set(60)
    texts = texts_to_encode(WORDLESS, fitted_on, POST_STEPS)
    embeddings = embed_texts(load(tiny_model), *texts, JUDGED_LENGTH)
    better, worse = (Embeddings(embeddings.texts, embeddings.vectors.copy()) for _ in range(2))
    for task in WORDLESS:
        answers = [task.corpus[answer] for answer in task.answers]
        others = np.roll(answers, 1).tolist()
        for query, answer, other in zip(task.queries, answers, others, strict=True):
            better.vectors[embeddings.texts.index(query)] = embeddings.encode([answer])[0]
            worse.vectors[embeddings.texts.index(query)] = embeddings.encode([other])[0]
    teachers = {"better": better, "worse": worse}
    measured = measure(load(tiny_model), WORDLESS, fitted_on, teachers)
    assert measured.taught_by == ["better"]
    assert measured.teachers["better"] > mean_score(measured.scores["keep"])
    assert set(MAPS) < measured.scores.keys()
    rankings = measured.rankings
    assert rankings is not None
    cosines = by_cosine(rankings.query_vectors, rankings.document_vectors)(slice(None))
    cosines[np.arange(len(cosines)), fitted_on.pseudo_queries.own] = -2
    first = cosines.argmax(axis=1)[:, None]
    assert (rankings.lists.documents == first).any(axis=1).all()
    assert rankings.lists.scores.max() == pytest.approx(1), "the weights sum to 1"


def test_a_model_that_adds_nothing_to_the_list_does_not_teach(tiny_model: Path) -> None:
    """The list of the model and BM25 finds more than the model; a twin leaves it as it is."""
    fitted_on = fitting_set(60)
    texts = texts_to_encode(TASKS, fitted_on, POST_STEPS)
    twin = embed_texts(load(tiny_model), *texts, JUDGED_LENGTH)
    measured = measure(load(tiny_model), TASKS, fitted_on, {"twin": twin})
    assert measured.teachers["twin"] > mean_score(measured.scores["keep"])
    assert measured.taught_by == ["BM25"]


@pytest.mark.parametrize("prompts", [False, True])
def test_a_teacher_reads_each_text_once_and_its_vectors_are_kept(
    prompts: bool, tiny_model: Path, prompted_model: Path
) -> None:
    model = str(prompted_model if prompts else tiny_model)
    queries = sentences(4, seed=1)
    documents = sentences(6, seed=2)
    lines: list[str] = []
    first, again = (read_teacher(model, queries, documents, lines.append) for _ in range(2))
    expected = embed_texts(load(model), queries, documents, JUDGED_LENGTH)
    for texts, role in ((queries, "encode_query"), (documents, "encode_document")):
        vectors = getattr(first, role)(texts)
        np.testing.assert_allclose(vectors, getattr(expected, role)(texts), atol=1e-2)
        np.testing.assert_array_equal(vectors, getattr(again, role)(texts))
    assert lines
    assert all("by an earlier call" in line for line in lines)


def test_a_model_with_a_route_gets_no_other_map_of_queries(tiny_model: Path) -> None:
    model = load(tiny_model)
    dimensions = model.get_embedding_dimension() or 0
    routed = with_map(model, np.zeros((dimensions, dimensions)))
    assert set(MAPS) & measure(routed).scores.keys() == {"map of all texts"}


def test_a_part_of_a_fitting_set_has_its_own_queries() -> None:
    part = fitting_set(60).part(20)
    queries = part.pseudo_queries
    assert len(part.documents) == 20
    assert len(queries.texts) == len(queries.documents) > 20
    for text, document in zip(queries.texts, queries.documents, strict=True):
        assert text in part.documents[document]


def test_the_speed_of_reading_is_that_of_a_few_texts(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["a b c", "one two " * 100] * 20
    ticks = iter((1.0, 2.0))
    monkeypatch.setattr(Clock, "now", lambda *_: next(ticks, 2.0))
    assert reading_speed(load(tiny_model), texts) == count_words(texts[:32])


def test_the_speed_of_training_leaves_the_model_as_it_was(tiny_model: Path) -> None:
    model = load(tiny_model)
    before = model.encode(["the king"])
    texts = [page(place).text for place in range(40)]
    assert training_speed(model, texts, 1000.0) > 0
    np.testing.assert_array_equal(model.encode(["the king"]), before)
    assert all(weight.grad is None for weight in model.parameters())


def test_what_was_measured_is_read_again_from_its_file(tmp_path: Path, tiny_model: Path) -> None:
    files, measured = RaceFiles(tmp_path), measure(load(tiny_model))
    files.write(KEPT, measured)
    again = files.read(KEPT)
    assert again is not None
    assert again.taught_by == measured.taught_by
    for name, scores in measured.scores.items():
        for task, cases in scores.items():
            np.testing.assert_array_equal(again.scores[name][task], cases)
            np.testing.assert_array_equal(
                again.hybrids[name][0.3][task], measured.hybrids[name][0.3][task]
            )
    step = files.step(KEPT, QUERY_MAP)
    np.testing.assert_array_equal(step.matrix, measured.steps[QUERY_MAP].matrix)
    assert step.queries_only
    rankings = files.rankings(KEPT, fitting_set(60))
    assert rankings is not None
    assert measured.rankings is not None
    assert rankings.queries == measured.rankings.queries
    np.testing.assert_array_equal(rankings.lists, measured.rankings.lists)


def test_a_damaged_file_counts_as_missing(tmp_path: Path, tiny_model: Path) -> None:
    files = RaceFiles(tmp_path)
    files.write(KEPT, measure(load(tiny_model)))
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    torn = content.find(b"\x93NUMPY", len(content) // 2) + 100  # in an array that is read later
    for damaged in (content[:-3], content[:torn] + b"?!" + content[torn + 2 :], b""):
        path.write_bytes(damaged)
        assert files.read(KEPT) is None
