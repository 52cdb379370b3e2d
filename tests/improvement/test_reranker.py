"""A cross-encoder as a teacher: it orders the best documents anew, and only teaches if that finds
more.
"""

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from sentence_transformers import CrossEncoder
from torch.nn import Module
from transformers import AutoModelForSequenceClassification

from helpers.library import fitting_set, page
from isotrope.encoder import load
from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import tasks_of_texts
from isotrope.evaluation.search import RankedLists
from isotrope.improvement import teachers
from isotrope.improvement.candidates import Candidate
from isotrope.improvement.improve import improve
from isotrope.improvement.measure import CandidateScores, measure_candidate
from isotrope.improvement.steps import MAPS
from isotrope.improvement.tasks import TaskSet
from isotrope.improvement.teachers import Reranker, RerankingTeacher, is_cross_encoder


class Overlap(CrossEncoder):
    """Says whether two texts share a rare word, and where not, how many words they share."""

    def __init__(self) -> None:
        Module.__init__(self)

    def predict(self, inputs: Any, **_: Any) -> Any:
        return np.array([shared(*pair) for pair in inputs])


def shared(one: str, other: str) -> float:
    words = {*one.split()} & {*other.split()}
    return 100.0 * any(word.startswith("rare") for word in words) + len(words)


@pytest.fixture(scope="module")
def cross_encoder(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random one, as sentence-transformers saves it."""
    raw = shutil.copytree(tiny_model, tmp_path_factory.mktemp("cross") / "raw")
    AutoModelForSequenceClassification.from_pretrained(tiny_model, num_labels=1).save_pretrained(
        raw
    )
    CrossEncoder(str(raw), device="cpu").save_pretrained(str(raw.parent / "cross"))
    return raw.parent / "cross"


def test_the_best_documents_are_ordered_anew(
    cross_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teachers, "DEPTH", 3)
    queries, documents = ["a star", "two boats"], [page(i).text for i in range(6)]
    lists = RankedLists(
        np.array([[5, 1, 0, 2], [4, 3, 2, 0]]),
        np.array([[0.1, 0.9, 0.8, 0.7], [1.0, 0.2, 0.6, 0.4]]),
    )
    loaded = Reranker(str(cross_encoder))
    found = loaded.rerank(queries, documents, lists)
    np.testing.assert_array_equal(found.documents, lists.documents)
    for query, rows, scores, known in zip(queries, *lists, found.scores, strict=True):
        best = sorted(range(4), key=list(-scores).__getitem__)[:3]
        read = {
            place: float(loaded.model.predict([(query, documents[rows[place]])])[0])
            for place in best
        }
        low, high = min(read.values()), max(read.values())
        wanted = [(read[place] - low) / (high - low) if place in read else 0 for place in range(4)]
        np.testing.assert_allclose(known, wanted, atol=1e-4)


TASKS = TaskSet(tasks_of_texts([page(place).text for place in range(40)], fewest=1))


def measure(model: Path, candidate: Candidate, teacher: RerankingTeacher) -> CandidateScores:
    return measure_candidate(
        load(model),
        candidate,
        TASKS,
        fitting_set(60),
        {"overlap": teacher},
        TASKS.search_by_words(),
    )


@pytest.fixture
def overlap(monkeypatch: pytest.MonkeyPatch) -> RerankingTeacher:
    monkeypatch.setattr(Reranker, "__init__", lambda self: setattr(self, "model", Overlap()))
    return RerankingTeacher(Reranker(), queries=20)  # type: ignore[call-arg]


def test_one_that_finds_more_teaches_the_model_that_was_given(
    tiny_model: Path, overlap: RerankingTeacher
) -> None:
    measured = measure(tiny_model, Candidate(name="keep"), overlap)
    assert "overlap" in measured.taught_by
    assert set(MAPS) < measured.scores.keys()
    rankings, fitted_on = measured.rankings, fitting_set(60)
    assert rankings is not None
    assert len(rankings.queries) == len(rankings.rows) == 20
    for row, query, listed, scores in zip(
        rankings.rows, rankings.queries, *rankings.lists, strict=True
    ):
        assert query == fitted_on.pseudo_queries.texts[row]
        assert fitted_on.pseudo_queries.documents[row] not in listed, "its own document"
        wanted = [shared(query, fitted_on.documents[place]) for place in listed]
        assert wanted[int(np.argmax(scores))] == max(wanted)


def test_it_teaches_no_other_model(tiny_model: Path, overlap: RerankingTeacher) -> None:
    measured = measure(tiny_model, Candidate(name="another"), overlap)
    assert "overlap" not in measured.taught_by


def test_a_model_of_vectors_is_no_cross_encoder(tiny_model: Path) -> None:
    assert not is_cross_encoder(str(tiny_model))


@pytest.mark.usefixtures("untrained")
def test_at_the_door(
    cross_encoder: Path,
    tiny_model: Path,
    whole: Path,
    library: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A random one does not teach, and the page says so. None can be improved; one of two scores
    cannot teach.
    """
    monkeypatch.setattr(teachers, "DEPTH", 5)
    quiet = Console(quiet=True)
    found = improve(whole, library, minutes=2, teachers=[cross_encoder], console=quiet)
    assert found.record["teachers"].keys() == {"cross"}
    assert re.search(
        r"cross did not teach, because the list with it scores \d",
        found.report(tmp_path / "page.html").read_text(),
    )
    with pytest.raises(UserError) as caught:
        improve(cross_encoder, library, console=quiet)
    assert caught.value.code == "cross-encoder"
    two = shutil.copytree(tiny_model, tmp_path / "two")
    AutoModelForSequenceClassification.from_pretrained(tiny_model, num_labels=2).save_pretrained(
        two
    )
    with pytest.raises(UserError) as caught:
        improve(whole, library, teachers=[two], console=quiet)
    assert caught.value.code == "several-scores"
