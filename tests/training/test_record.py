"""A run's files, read for its page: which numbers become which curve, and where a setting comes from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isotrope.evaluation.sets.pairs import Pairs
from isotrope.preset.preset import read_preset
from isotrope.store.job import Job
from isotrope.training.folder import RunFolder
from isotrope.training.progress import MetricsLog
from isotrope.training.record import RunRecord

RESULT = {"verdict": {"word": "better"}, "corpus": {}, "selection": {"best_step": 4}, "preset": "dclr"}
Kept = Callable[..., RunRecord]


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """A run's folder, written without a training."""

    def read(*metrics: dict[str, Any], preset: str = "simcse", result: Any = None, **overrides: str) -> RunRecord:
        folder = RunFolder(tmp_path / "run")
        given = [f"{key.replace('__', '.')}={value}" for key, value in overrides.items()]
        with (job := Job(folder.path, "run", {"seed": 3})).held():
            job.begin()
            folder.begin(read_preset(preset, given), ["the river", "the lake"])
            log = MetricsLog(folder.metrics_file)
            for record in metrics:
                log.add(**record)
            if result:
                job.finish(result, announced=())
        return RunRecord.read(folder.path)

    return read


def test_a_run_that_has_only_begun_is_empty(kept: Kept) -> None:
    record = kept()
    assert (record.result, record.gold, record.cosines, record.metrics) == ({}, {}, {}, [])
    assert record.identity == {"seed": 3}
    assert record.sample == ["the river", "the lake"]
    assert record.kept_step is None
    assert record.losses() == record.dev_scores() == {}


def test_one_term_is_drawn_under_its_name_and_several_beside_the_loss(kept: Kept) -> None:
    logged = {"grad_norm": 9.0, "learning_rate": 1e-5}
    one = kept({"step": 1, "loss": 0.5, "infonce": 0.5, **logged}, {"step": 2, "score": 0.1, "pairs": 0.1})
    assert one.losses() == {"infonce": ([1], [0.5])}
    two = kept({"step": 3, "loss": 0.9, "infonce": 0.5, "rank": 0.4, **logged})
    assert two.losses() == {"loss": ([3], [0.9]), "infonce": ([3], [0.5]), "rank": ([3], [0.4])}


def test_dev_scores_are_times_100_and_the_mean_is_drawn_where_there_are_several_sets(kept: Kept) -> None:
    space = {"alignment": 0.3, "uniformity": -2.0}
    one = kept({"step": 2, "score": 0.25, "stsb": 0.25, **space}, {"step": 3, "loss": 1.0})
    assert one.dev_scores() == {"score": ([2], [25.0])}
    two = kept({"step": 5, "score": 0.5, "stsb": 0.75, "sickr": 0.25, **space})
    assert two.dev_scores() == {"mean": ([5], [50.0]), "stsb": ([5], [75.0]), "sickr": ([5], [25.0])}


def test_a_series_has_the_steps_at_which_all_its_keys_were_logged(kept: Kept) -> None:
    record = kept({"step": 1, "a": 1, "b": 2}, {"step": 2, "a": 3}, {"step": 3, "a": 5, "b": 6})
    assert record.series("a", "b") == [([1, 3], [1.0, 5.0]), ([1, 3], [2.0, 6.0])]
    assert record.series("a") == [([1, 2, 3], [1.0, 3.0, 5.0])]
    assert record.series("none") == [([], [])]


def test_parts_of_a_task_are_joined_in_their_order(kept: Kept, tmp_path: Path) -> None:
    kept()
    sets = {"STS12": {part: Pairs(part, ["a"] * 2, ["b"] * 2, np.array([i, i + 1.0])) for i, part in enumerate("xy")}}
    RunFolder(tmp_path / "run").write_cosines(
        "before", sets, {"STS12": {"x": np.array([0.1, 0.2]), "y": np.array([0.3, 0.4])}}
    )
    record = RunRecord.read(tmp_path / "run")
    assert record.gold["STS12"].tolist() == [0, 1, 1, 2]
    assert record.cosines["before"]["STS12"].tolist() == [0.1, 0.2, 0.3, 0.4]
    assert "after" not in record.cosines


def test_the_method_is_the_results_else_that_of_the_shipped_preset(kept: Kept) -> None:
    assert kept().method == "simcse", "unfinished"
    assert kept(result=RESULT).method == "dclr"


def test_a_setting_comes_from_its_paper_from_us_or_from_this_run(kept: Kept) -> None:
    rows = {key: (value, source) for key, value, source in kept(train__epochs="7").settings()}
    assert rows["train.epochs"] == ("7.0", "set for this run")
    value, source = rows["terms.infonce.temperature"]
    assert value == "0.05"
    assert "SimCSE" in source
    assert "isotrope's default" in {source for _, source in rows.values()}


def test_a_record_without_a_step_is_left_out(kept: Kept, tmp_path: Path) -> None:
    kept({"step": 1, "loss": 2.0})
    with (tmp_path / "run" / "metrics.jsonl").open("a") as log:
        log.write('{"step": "two", "loss": 1.0}\n')
    assert [record["step"] for record in RunRecord.read(tmp_path / "run").metrics] == [1]
