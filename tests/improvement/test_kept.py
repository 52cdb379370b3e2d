"""What a race keeps in files: it is read again, and what is damaged counts as missing."""

from pathlib import Path

import numpy as np

from isotrope.evaluation.search import RankedLists
from isotrope.improvement.budget import Size
from isotrope.improvement.candidates import Trial
from isotrope.improvement.measure import Kept, Measured
from isotrope.improvement.steps import QUERY_MAP, Basis, Fitted
from isotrope.improvement.teachers import Rankings
from isotrope.text.pseudo_queries import PseudoQueries


def test_a_file_that_was_cut_counts_as_missing(tmp_path: Path) -> None:
    kept, trial = Kept(tmp_path, Size(10, 10)), Trial("keep", steps=(QUERY_MAP,))
    scores = {name: {"task": np.array([0.5, 0.25])} for name, _ in trial.candidates()}
    lists = RankedLists(np.array([[1, 0]]), np.array([[0.5, 0.25]]))
    rankings = Rankings(["query"], np.arange(1), np.ones((1, 2)), np.ones((2, 2)), lists)
    step = Fitted(np.zeros(2), 2 * np.eye(2), queries_only=True)
    kept.write(trial, Measured(scores, {}, ["BM25"], {QUERY_MAP: step}, rankings, {"better": 0.5}))
    again = kept.read(trial)
    assert again
    assert (again.taught_by, again.teachers, list(again.scores)) == (
        ["BM25"],
        {"better": 0.5},
        ["keep", QUERY_MAP],
    )
    np.testing.assert_array_equal(again.scores[QUERY_MAP]["task"], [0.5, 0.25])
    fitted = kept.step(trial, QUERY_MAP)
    np.testing.assert_array_equal(fitted.matrix, step.matrix)
    assert fitted.queries_only
    found = kept.rankings(
        Trial("a training", recipe="query encoder"),
        Basis(["one", "two"], PseudoQueries(["query"]), 0),
    )
    assert found
    assert found.queries == ["query"]
    np.testing.assert_array_equal(found.lists, lists)
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    content = file.read_bytes()
    torn = content.find(b"\x93NUMPY", len(content) // 2) + 100  # in an array that is read later
    for damaged in (content[:-3], content[:torn] + b"?!" + content[torn + 2 :], b"", None):
        file.write_bytes(damaged) if damaged is not None else file.unlink()
        assert kept.read(trial) is None
