"""The pairs that select and those that judge; which checkpoint a run keeps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from isotrope import load
from isotrope.errors import UserError
from isotrope.evaluation.sets.labels import read_pairs
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.training import pairs
from isotrope.training.pairs import dev_names, dev_pairs, named_pairs
from isotrope.training.selection import DevScore
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


def test_the_curves_are_those_of_the_first_set(tiny_model: Path, pairs_file: Path) -> None:
    """DCLR's Figure 4 and RankCSE's Figure 4 are about STS-B, whatever else selects."""
    first = read_pairs(pairs_file)
    other = Pairs("other", ["some words"] * 3, ["words", "other words", "no"], np.array([1.0, 5.0, 3.0]))
    model = load(tiny_model, "mean", device="cpu")
    alone, both = DevScore({"first": first})(model), DevScore({"first": first, "other": other})(model)
    for name in ("uniformity", "alignment", "first"):
        assert both[name] == pytest.approx(alone[name], abs=1e-6)
    assert both["score"] == pytest.approx((both["first"] + both["other"]) / 2)


def test_half_of_the_users_pairs_select_and_the_other_half_judges(pairs_file: Path) -> None:
    judging, selecting = named_pairs(str(pairs_file), [], None, None)
    whole, kept, held = read_pairs(pairs_file), selecting["pairs"], judging["pairs"]["test"]
    assert len(kept) == len(held) == len(whole) // 2
    assert sorted([*kept.first, *held.first]) == sorted(whole.first)
    again = named_pairs(str(pairs_file), [], None, None)[1]["pairs"]
    assert again.checksum() == kept.checksum()


def test_none_and_several_names(pairs_file: Path, tmp_path: Path) -> None:
    assert dev_names(["stsb,none", "a.tsv"]) == ["stsb", "a.tsv"]
    assert named_pairs("none", ["stsb"], None, None) == ({}, {})
    other = shutil.copy(pairs_file, tmp_path / "other.tsv")
    assert set(dev_pairs([str(pairs_file), str(other)], None)) == {"pairs", "other"}
    with pytest.raises(UserError, match="two dev sets are called 'pairs'"):
        dev_pairs([str(pairs_file), str(pairs_file)], None)


@pytest.fixture
def transfer(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The transfer tasks without their files: what they give, one value an evaluation; the last one stays."""
    given = [0.7]

    def evaluated(_: object, tasks: tuple[str, ...], __: object, setting: str) -> dict[str, dict[str, float]]:
        assert (len(tasks), setting) == (7, "fast")
        value = given.pop(0) if len(given) > 1 else given[0]
        return {task: {"dev_accuracy": value + 0.01 * i, "accuracy": 0.0} for i, task in enumerate(tasks)}

    monkeypatch.setattr(pairs, "load_transfer", lambda data, task: {})
    monkeypatch.setattr(pairs, "evaluate_transfer", evaluated)
    return given


def test_transfer_tasks_select(transfer: list[float], tiny_model: Path, pairs_file: Path, tmp_path: Path) -> None:
    """Their mean dev accuracy is one score beside those of pairs; nothing of them judges."""
    judging, selecting = named_pairs(["transfer-dev", str(pairs_file)], [], None, tmp_path)
    assert (list(judging), list(selecting)) == (["pairs"], ["pairs", "transfer-dev"])
    model = load(tiny_model, "mean", device="cpu")
    found = DevScore(selecting)(model)
    assert found["transfer-dev"] == pytest.approx(0.73)
    assert found["score"] == pytest.approx((found["pairs"] + 0.73) / 2)
    alone = DevScore({"transfer-dev": selecting["transfer-dev"]})(model)
    assert alone == pytest.approx({"transfer-dev": 0.73, "score": 0.73})


def test_missing_transfer_tasks_are_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds neither senteval/downstream"):
        named_pairs("transfer-dev", [], None, tmp_path)
    with pytest.raises(UserError, match="no data folder given"):
        named_pairs("transfer-dev", [], None, None)
    with pytest.raises(UserError, match="dev set 'transfer-dev' is unknown"):  # whitening judges by pairs alone
        dev_pairs(["transfer-dev"], tmp_path)
