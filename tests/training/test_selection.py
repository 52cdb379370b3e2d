"""Which checkpoint a run keeps, and when it stops."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from isotrope import load
from isotrope.evaluation.sets.labels import read_pairs
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.evaluation.sts import spearman
from isotrope.training.selection import DevScore
from isotrope.training.train import Run
from small_runs import small_run


def test_without_pairs_the_last_checkpoint_is_kept(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = small_run(tiny_model, corpus_file, tmp_path / "run", dev="none", labels="none")
    assert run.verdict.word == "not tested"
    assert "**Not judged.**" in (run.folder / "model" / "README.md").read_text(encoding="utf-8")
    assert run.record["selection"]["best_step"] is None
    assert "the last checkpoint is kept" in capsys.readouterr().out
    records = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    signals = [record for record in records if "uniformity" in record]
    assert [record["step"] for record in signals] == [5, 10, 15, 20]
    assert all(np.isfinite([r["alignment"], r["uniformity"], r["mean_cosine"]]).all() for r in signals)


def test_early_stopping_ends_the_run(tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path) -> None:
    run = small_run(
        tiny_model, corpus_file, tmp_path / "run", "train.patience=1", "train.learning_rate=1e-12", dev=str(pairs_file)
    )
    assert run.record["selection"]["steps"] == 10, "the second evaluation is no better than the first"
    assert run.record["selection"]["best_step"] == 5


def test_dev_scores_are_spearman_of_the_saved_model(finished: Run, pairs_file: Path) -> None:
    from isotrope.training.pairs import judges

    _, kept = judges(None, {"pairs": read_pairs(pairs_file)}, None)
    model = SentenceTransformer(str(finished.folder / "model"), device="cpu")
    first, second = (torch.nn.functional.normalize(model.encode(side, convert_to_tensor=True), dim=-1)
                     for side in (kept["pairs"].first, kept["pairs"].second))  # fmt: skip
    found = spearman((first * second).sum(-1).numpy(), kept["pairs"].gold)
    assert found == pytest.approx(finished.record["selection"]["best_score"], abs=1e-3)


def test_the_curves_are_those_of_the_first_set(tiny_model: Path, pairs_file: Path) -> None:
    """DCLR's Figure 4 and RankCSE's Figure 4 are about STS-B, whatever else selects."""
    first = read_pairs(pairs_file)
    other = Pairs("other", ["some words"] * 3, ["words", "other words", "no"], np.array([1.0, 5.0, 3.0]))
    model = load(tiny_model, "mean", device="cpu")
    alone, both = DevScore({"first": first})(model), DevScore({"first": first, "other": other})(model)
    for name in ("uniformity", "alignment", "first"):
        assert both[name] == pytest.approx(alone[name], abs=1e-6)
    assert both["score"] == pytest.approx((both["first"] + both["other"]) / 2)
