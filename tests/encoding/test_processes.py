"""Encoding with several processes: the same bytes as one, whoever is killed."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from isotrope.encoding.encode import encode
from isotrope.encoding.engines import Shard, WorkerModel
from isotrope.encoding.processes import Processes, portable
from isotrope.errors import UserError
from small_shards import contents, lines


def test_equal_to_one_process(tmp_path: Path, tiny_model: Path, corpus_file: Path) -> None:
    """All files, byte by byte; a worker that is killed in the middle changes nothing."""
    file = lines(corpus_file, tmp_path / "c.txt", 100)
    one = encode(tiny_model, file, tmp_path / "one", shard=13, batch_size=4)
    killed: list[int] = []

    def kill(done: int) -> None:
        if done >= 26 and not killed:
            victim = multiprocessing.active_children()[0]
            killed.append(victim.pid or 0)
            victim.kill()

    two = encode(
        tiny_model, file, tmp_path / "two", shard=13, batch_size=4, engine="processes", jobs=2, progress=kill
    )  # fmt: skip
    assert killed
    assert contents(two) == contents(one)
    assert len(contents(one)) == 9
    assert not multiprocessing.active_children()


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("name", ["v.npy", "v.parquet"])
def test_other_numbers_of_workers(tmp_path: Path, tiny_model: Path, corpus_file: Path, jobs: int, name: str) -> None:
    file = lines(corpus_file, tmp_path / "c.txt", 100)
    one = encode(tiny_model, file, tmp_path / f"one.{name}", shard=13)
    other = encode(tiny_model, file, tmp_path / name, shard=13, engine="processes", jobs=jobs)
    assert other.read_bytes() == one.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_driver_goes_on(tmp_path: Path, tiny_model: Path, corpus_file: Path, sent: int) -> None:
    """Its workers end with it, and one process may do the rest."""
    file = lines(corpus_file, tmp_path / "c.txt", 1500)
    script = tmp_path / "job.py"
    script.write_text(
        "import sys, time\nfrom isotrope import encode\n"
        "if __name__ == '__main__':\n"
        "    say = lambda done: (print(done, flush=True), time.sleep(0.2))\n"
        "    encode(sys.argv[1], sys.argv[2], sys.argv[3], shard=50, engine='processes', jobs=2, progress=say)\n"
    )
    out = tmp_path / "out"
    command = [sys.executable, str(script), str(tiny_model), str(file), str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as driver:
        assert driver.stdout
        while int(driver.stdout.readline()) < 100:
            pass
        workers = psutil.Process(driver.pid).children(recursive=True)
        driver.send_signal(sent)
        driver.wait(20)
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive
    assert 0 < len(list(out.glob("part-*"))) < 30
    first = (out / "part-00000.parquet").stat().st_mtime_ns
    encode(tiny_model, file, out, shard=50)
    assert (out / "part-00000.parquet").stat().st_mtime_ns == first
    assert contents(out) == contents(encode(tiny_model, file, tmp_path / "whole", shard=50))


def test_errors_travel() -> None:
    """Our own as they are, others as words: not every error can be unpickled."""
    own = UserError("a", "b")
    assert portable(own) is own
    copy = pickle.loads(pickle.dumps(own))
    assert (type(copy), str(copy)) == (UserError, "a: b")
    assert "ZeroDivisionError: division by zero" in str(portable(ZeroDivisionError("division by zero")))


@pytest.mark.slow
def test_another_model_in_the_worker(tiny_model: Path) -> None:
    workers = Processes(WorkerModel(str(tiny_model), {}, "another", 4, 1))
    try:
        workers.submit(0, Shard(0, ["a"]))
        found = []
        while not found:
            found = workers.finished()
    finally:
        workers.close()
    assert "a worker found another model" in str(found[0][1])
