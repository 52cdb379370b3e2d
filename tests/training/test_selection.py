"""The pairs that select and those that judge; which checkpoint a run keeps."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isotrope.errors import UserError
from isotrope.evaluation.sets.labels import read_pairs
from isotrope.training.pairs import dev_names, dev_pairs, named_pairs
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


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("none", [], "stts", None), r"labels = 'stts' is unknown: did you mean 'sts'"),
        (("stsb-dve", [], "none", None), r"dev set 'stsb-dve' is unknown: did you mean 'stsb-dev'"),
        ((None, ["stsb-dve"], None, None), r"dev set 'stsb-dve' is unknown"),
    ],
    ids=["labels", "dev", "the preset's, without a data folder"],
)
def test_an_unknown_name_is_refused(given: Any, problem: str) -> None:
    """It is never passed over, and nothing else judges in its place."""
    with pytest.raises(UserError, match=problem):
        named_pairs(*given)


def test_missing_transfer_tasks_are_refused_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ISOTROPE_DATA", raising=False)
    with pytest.raises(UserError, match=r"senteval/downstream/.* does not exist"):
        named_pairs("transfer-dev", [], None, tmp_path)
    with pytest.raises(UserError, match="no data folder given"):
        named_pairs("transfer-dev", [], None, None)
    with pytest.raises(UserError, match="dev set 'transfer-dev' is unknown"):  # whitening judges by pairs alone
        dev_pairs(["transfer-dev"], tmp_path)
