"""Shards over several workers: handed out in order, few in memory, done again after a death."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isotrope.encoding.encode import encode
from isotrope.encoding.engines import ATTEMPTS, Encoded, Shard, check_engine, shards_in_order
from isotrope.errors import UserError


class Desk:
    """Workers in this process: the one with the highest number is always the first to end."""

    def __init__(self, die: dict[int, int] | None = None, wrong: int | None = None) -> None:
        self.busy: dict[int, Shard] = {}
        self.die, self.wrong, self.closed, self.most = dict(die or {}), wrong, False, 0

    def submit(self, worker: int, shard: Shard) -> None:
        assert worker not in self.busy
        self.busy[worker] = shard
        self.most = max(self.most, len(self.busy))

    def finished(self) -> list[tuple[int, Encoded | None]]:
        worker = max(self.busy)
        shard = self.busy.pop(worker)
        if self.die.get(shard.start, 0):
            self.die[shard.start] -= 1
            return [(worker, None)]
        if shard.start == self.wrong:
            return [(worker, UserError(f"row {shard.start}", "correct it"))]
        return [(worker, np.array([[len(text)] for text in shard.sentences], np.float32))]

    def close(self) -> None:
        self.closed = True


def shards(count: int, drawn: list[int]) -> Iterator[Shard]:
    for number in range(count):
        drawn.append(number)
        yield Shard(2 * number, ["a" * number, "b" * number])


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_order_and_memory(jobs: int) -> None:
    """Whoever ends first, shards come in order, and at most jobs + 1 are drawn and not yet handed out."""
    drawn: list[int] = []
    desk, starts = Desk(), []
    for shard, vectors in shards_in_order(desk, jobs, shards(9, drawn)):
        assert len(drawn) - len(starts) <= jobs + 1
        assert vectors[:, 0].tolist() == [len(text) for text in shard.sentences]
        starts.append(shard.start)
    assert starts == list(range(0, 18, 2))
    assert (desk.most, desk.closed) == (jobs, True)


def test_a_dead_workers_shard_is_done_again_but_not_for_ever() -> None:
    survived = shards_in_order(Desk(die={4: ATTEMPTS - 1, 0: 1}), 2, shards(5, []))
    assert [shard.start for shard, _ in survived] == [0, 2, 4, 6, 8]
    desk = Desk(die={4: 99})
    with pytest.raises(UserError, match=r"3 workers were killed at rows 4 to 5: is the memory full\?"):
        list(shards_in_order(desk, 2, shards(5, [])))
    assert desk.closed


def test_an_error_comes_after_the_shards_before_it() -> None:
    desk, seen = Desk(wrong=6), []
    with pytest.raises(UserError, match="row 6"):  # noqa: PT012
        for shard, _ in shards_in_order(desk, 3, shards(9, [])):
            seen.append(shard.start)
    assert (seen, desk.closed) == ([0, 2, 4], True)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"engine": "spark"}, "engine = 'spark' is unknown: choose one of one, processes, ray"),
        ({"engine": "processes", "jobs": 0}, "jobs = 0 is impossible"),
        ({"jobs": 2}, "jobs = 2 needs several processes: add --engine"),
        ({"engine": "processes", "address": "auto"}, "address = 'auto' needs the engine ray"),
    ],
)
def test_wrong_options(tmp_path: Path, options: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError, match=line):
        encode("no-model", "no-file.txt", tmp_path / "v", **options)


def test_workers_need_a_models_name() -> None:
    with pytest.raises(UserError, match="the engine processes needs the name of a model"):
        check_engine("processes", 2, None, object())
    assert check_engine("processes", 2, None, "m") == 2
    assert check_engine("processes", None, None, "m") >= 1
