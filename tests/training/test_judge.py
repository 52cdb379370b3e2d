"""The verdict, and what becomes of damaged cosines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from isotrope.evaluation.sets.labels import read_pairs
from isotrope.training.train import Run
from small_runs import small_run, unfinished


def test_the_verdict_is_on_pairs_that_did_not_select(finished: Run, pairs_file: Path, tiny_model: Path) -> None:
    """Half of the user's pairs select, the other half judges; its numbers are those of the two models."""
    comparison = finished.result["comparison"]
    (task,) = comparison["per_task"]
    pairs = read_pairs(pairs_file)
    scored = next(iter(finished.result["after"].values()))
    assert scored["nsamples"] == len(pairs) // 2
    assert comparison["after"] == pytest.approx(scored["spearman"]["test"], abs=1e-12)
    assert comparison["after"] - comparison["before"] == pytest.approx(comparison["difference"])
    assert finished.result["selection"]["sets"] == [task] == ["pairs"]


@pytest.mark.parametrize("damage", ["truncated", "empty", "missing", "of other pairs"])
def test_damaged_cosines_are_made_again(
    damage: str, finished: Run, tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    begun = unfinished(finished, tmp_path / "run")
    kept = begun / "before.npz"
    if damage == "missing":
        kept.unlink()
    elif damage == "of other pairs":
        np.savez(kept, **{"x/test": np.zeros(3), "x/test/gold": np.zeros(3)})
    else:
        kept.write_bytes(kept.read_bytes()[: 100 if damage == "truncated" else 0])
    again = small_run(tiny_model, corpus_file, begun, dev=str(pairs_file), resume=True)
    assert again.result["comparison"] == finished.result["comparison"]
