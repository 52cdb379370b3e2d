"""An array that grows on disk: what a kill leaves behind the whole shards does not count."""

from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isotrope.store.rows import GrowingArray

ROWS = np.arange(70, dtype=np.float32).reshape(10, 7)  # (R, D)


def test_shard_after_shard(tmp_path: Path) -> None:
    array = GrowingArray(tmp_path / "draft", 10, 7)
    for done in (0, 4, 8):
        assert array.rows_written(4) == done
        array.append(done, ROWS[done : done + 4])
    array.finish(tmp_path / "a.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy", mmap_mode="r"), ROWS)
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]


@given(cut=st.integers(0, 500))
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_kill_at_any_byte(tmp_path: Path, cut: int) -> None:
    array = GrowingArray(tmp_path / "draft", 10, 7)
    array.append(0, ROWS[:4])
    array.append(4, ROWS[4:8])
    content = (tmp_path / "draft").read_bytes()
    (tmp_path / "draft").write_bytes(content[:cut])
    done = array.rows_written(4)
    assert done <= 8
    for start in range(done, 10, 4):
        array.append(start, ROWS[start : start + 4])
    np.testing.assert_array_equal(np.load(tmp_path / "draft"), ROWS)
