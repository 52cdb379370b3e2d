"""What a race keeps in files: it is read again, and what is damaged counts as missing."""

from pathlib import Path

import numpy as np

from isotrope.evaluation.retrieval import Lists
from isotrope.improvement.budget import Size
from isotrope.improvement.candidates import Trial
from isotrope.improvement.kept import Kept
from isotrope.improvement.measure import Measured
from isotrope.improvement.steps import QUERY_MAP, Fitted
from isotrope.improvement.teachers import Rankings


def test_a_file_that_was_cut_counts_as_missing(tmp_path: Path) -> None:
    kept, trial = Kept(tmp_path, Size(10, 10)), Trial("keep", steps=(QUERY_MAP,))
    scores = {name: {"task": np.array([0.5, 0.25])} for name, _ in trial.candidates()}
    lists = Lists(np.array([[1, 0]]), np.array([[0.5, 0.25]]))
    rankings = Rankings(["query"], np.arange(1), np.ones((1, 2)), np.ones((2, 2)), lists)
    kept.write(trial, Measured(scores, {}, ["BM25"], {QUERY_MAP: Fitted(np.zeros(2), np.eye(2))}, rankings))
    again = kept.read(trial)
    assert again
    assert again.taught_by == ["BM25"]
    np.testing.assert_array_equal(again.scores[QUERY_MAP]["task"], [0.5, 0.25])
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.parent.name for path in files} == {"scores", "steps", "rankings"}
    for file in files:
        content = file.read_bytes()
        for damaged in (content[:-3], b"", None):
            file.write_bytes(damaged) if damaged is not None else file.unlink()
            assert kept.read(trial) is None, file
        file.write_bytes(content)
    assert kept.read(trial)
