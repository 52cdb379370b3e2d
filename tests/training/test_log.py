"""The log of a run: what it begins with, and what is appended."""

from __future__ import annotations

import json
from pathlib import Path

from isotrope.training.log import MetricsLog


def test_what_a_killed_run_wrote_after_its_checkpoint_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    first = MetricsLog(path)
    for step in (1, 2, 3):
        first.add(step, loss=step / 2)
    again = MetricsLog(path, begun=first.records[:2])
    again.add(3, score=0.5)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == again.records == [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 1.0}, {"step": 3, "score": 0.5}]
    assert again.evaluations() == [{"step": 3, "score": 0.5}]


def test_other_processes_write_nothing(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl", writing=False)
    log.add(1, loss=1.0)
    assert log.records
    assert not list(tmp_path.iterdir())
