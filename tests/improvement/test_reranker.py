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

from helpers.library import basis, page
from isotrope.encoder import load
from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import tasks_of_texts
from isotrope.evaluation.search import RankedLists
from isotrope.evaluation.sets.similarity import similarity_pairs
from isotrope.improvement import teachers
from isotrope.improvement.candidates import Trial
from isotrope.improvement.decide import mean_score
from isotrope.improvement.improve import improve
from isotrope.improvement.measure import measure_trial
from isotrope.improvement.steps import MAPS
from isotrope.improvement.teachers import Reranker, is_cross_encoder, read_teacher


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
    loaded = Reranker.load(str(cross_encoder))
    found = loaded.reranked(queries, documents, lists)
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


def test_one_that_finds_more_teaches_the_model_that_was_given(tiny_model: Path) -> None:
    tasks, fitted_on = (
        tasks_of_texts([page(place).text for place in range(40)], fewest=1),
        basis(60),
    )
    overlap = {"overlap": Reranker(Overlap(), count=20)}
    found = measure_trial(load(tiny_model), Trial("keep"), tasks, fitted_on, overlap)
    assert found.teachers["overlap"] > max(map(mean_score, found.hybrids.values()))
    assert "overlap" in found.taught_by
    assert set(MAPS) < found.scores.keys()
    rankings = found.rankings
    assert rankings is not None
    assert len(rankings.queries) == len(rankings.rows) == 20
    for row, query, listed, scores in zip(
        rankings.rows, rankings.queries, *rankings.lists, strict=True
    ):
        assert query == fitted_on.asked.texts[row]
        assert fitted_on.asked.documents[row] not in listed, "its own document"
        wanted = [shared(query, fitted_on.documents[place]) for place in listed]
        assert wanted[int(np.argmax(scores))] == max(wanted)
    other = measure_trial(load(tiny_model), Trial("another"), tasks, fitted_on, overlap)
    assert "overlap" not in other.taught_by


def test_it_is_asked_about_as_much_as_there_is_time_for(
    cross_encoder: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, fitted_on = (
        tasks_of_texts([page(place).text for place in range(40)], fewest=1),
        basis(60),
    )
    judged = sum(len(task.queries) for task in tasks)
    monkeypatch.setattr(Reranker, "speed", lambda *_: 500.0)  # ten lists a second
    monkeypatch.setattr(teachers, "FEWEST", 20)
    ask = (str(cross_encoder), tasks, fitted_on)
    assert isinstance(found := read_teacher(*ask, seconds=judged / 10 + 5), Reranker)
    assert found.count == pytest.approx(50, abs=1)
    assert isinstance(whole := read_teacher(*ask, seconds=float("inf")), Reranker)
    assert whole.count == len(fitted_on.asked.texts)
    assert isinstance(planned := read_teacher(*ask, seconds=1, count=7), Reranker)
    assert planned.count == 7
    with pytest.raises(UserError, match=r"it would take \d minutes to order the documents"):
        read_teacher(*ask, seconds=judged / 10 + 1)
    with pytest.raises(UserError, match="graded pairs cannot say"):
        read_teacher(str(cross_encoder), [similarity_pairs()], fitted_on, 1e9)
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
        r"cross did not teach, because it scores \d",
        found.report(tmp_path / "page.html").read_text(),
    )
    with pytest.raises(
        UserError, match="cross is a cross-encoder, which gives no vectors: let it teach: --teacher"
    ):
        improve(cross_encoder, library, console=quiet)
    two = shutil.copytree(tiny_model, tmp_path / "two")
    AutoModelForSequenceClassification.from_pretrained(tiny_model, num_labels=2).save_pretrained(
        two
    )
    with pytest.raises(UserError, match="two gives 2 scores to two texts"):
        improve(whole, library, teachers=[two], console=quiet)
