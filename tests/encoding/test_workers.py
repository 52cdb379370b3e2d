"""Shards as tasks of a process pool or of Ray Data: the same bytes as one process, whoever is
killed.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from helpers.small_shards import contents, lines
from isotrope.encoder import load
from isotrope.encoder.fast.half import has_bf16
from isotrope.encoding.encode import encode
from isotrope.encoding.tasks import ShardTask, WorkerModel, by_processes, encoder_checksum
from isotrope.errors import UserError

needs_ray = pytest.mark.skipif(util.find_spec("ray") is None, reason="needs isotrope[ray]")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As each worker has: the number of threads decides the last bits of a vector."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def workers_of(process: psutil.Process) -> list[psutil.Process]:
    """Those that encode, of a pool or of Ray."""
    children = process.children(recursive=True)
    return [
        one
        for one in children
        if any(word in " ".join(one.cmdline()) for word in ("MapWorker", "spawn_main"))
    ]


def parts(folder: Path) -> dict[str, bytes]:
    return {name: part for name, part in contents(folder).items() if name.startswith("part")}


def test_equal_to_one_process(tmp_path: Path, tiny_model: Path, corpus_file: Path) -> None:
    """All files, byte by byte, also of a loaded model, and in the dtype that the driver has chosen."""
    file, dtype = lines(corpus_file, tmp_path / "c.txt", 60), "bf16" if has_bf16() else "float32"
    one = encode(tiny_model, file, tmp_path / "one", shard=20, dtype=dtype)
    two = encode(
        load(tiny_model),
        file,
        tmp_path / "two",
        shard=20,
        dtype=dtype,
        engine="processes",
        workers=1,
    )
    assert parts(one) == parts(two)
    assert len(parts(one)) == 3


@pytest.mark.parametrize(
    "engine", ["processes", pytest.param("ray", marks=[pytest.mark.slow, needs_ray])]
)
def test_a_killed_worker_is_replaced(
    tmp_path: Path,
    tiny_model: Path,
    corpus_file: Path,
    engine: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It changes nothing. Workers of the pool are forked here: a new one would import torch for
    seven seconds.
    """
    forked, killed = multiprocessing.get_context("fork"), list[psutil.Process]()
    file = lines(corpus_file, tmp_path / "c.txt", 100)
    one = encode(tiny_model, file, tmp_path / "one", shard=13, batch_size=4)

    def kill(done: int) -> None:
        if done >= 26 and not killed:
            pool = [psutil.Process(child.pid) for child in multiprocessing.active_children()]
            killed.append((pool or workers_of(psutil.Process()))[0])
            killed[0].kill()

    monkeypatch.setattr(multiprocessing, "get_context", lambda method: forked)
    two = encode(
        tiny_model,
        file,
        tmp_path / "two",
        shard=13,
        batch_size=4,
        engine=engine,
        workers=2,
        progress=kill,
    )
    assert killed
    assert contents(one) == contents(two)
    assert len(parts(one)) == 8
    assert not multiprocessing.active_children()
    assert not workers_of(psutil.Process())


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["processes", pytest.param("ray", marks=needs_ray)])
def test_parts_at_a_url(tmp_path: Path, tiny_model: Path, corpus_file: Path, engine: str) -> None:
    """Each worker uploads its own."""
    file = lines(corpus_file, tmp_path / "c.txt", 60)
    one = encode(tiny_model, file, tmp_path / "one", shard=20)
    (tmp_path / "two").mkdir()
    url = encode(tiny_model, file, f"file://{tmp_path}/two", shard=20, engine=engine, workers=2)
    assert url == f"file://{tmp_path}/two"
    there = contents(tmp_path / "two")
    assert {**there, "_manifest.json": b""} == {**contents(one), "_manifest.json": b""}


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_driver_goes_on(
    tmp_path: Path, tiny_model: Path, corpus_file: Path, sent: int
) -> None:
    """Its workers end with it, and one process may do the rest."""
    file = lines(corpus_file, tmp_path / "c.txt", 1500)
    script = tmp_path / "job.py"
    script.write_text(
        "import sys, time, torch\nfrom isotrope import encode\n"
        "if __name__ == '__main__':\n"
        "    torch.set_num_threads(1)\n"
        "    say = lambda done: (print(done, flush=True), time.sleep(0.2))\n"
        "    encode(sys.argv[1], sys.argv[2], sys.argv[3], shard=50, engine='processes', workers=2, progress=say)\n"
    )
    out = tmp_path / "out"
    command = [sys.executable, str(script), str(tiny_model), str(file), str(out)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as driver:
        assert driver.stdout
        while int(driver.stdout.readline()) < 100:
            pass
        workers = workers_of(psutil.Process(driver.pid))
        driver.send_signal(sent)
        driver.wait(20)
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive
    assert 0 < len(list(out.glob("part-*"))) <= 30
    first = (out / "part-00000.parquet").stat().st_mtime_ns
    encode(tiny_model, file, out, shard=50)
    assert (out / "part-00000.parquet").stat().st_mtime_ns == first
    assert contents(out) == contents(encode(tiny_model, file, tmp_path / "whole", shard=50))


class Deadly(ShardTask):
    """A shard at which every worker dies."""

    def encode(self, *_: object) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0


@pytest.mark.slow
def test_the_third_death_in_a_row_ends_the_command(tiny_model: Path) -> None:
    model = WorkerModel(str(tiny_model), (), encoder_checksum(load(tiny_model)), 1)
    with pytest.raises(UserError, match="workers were killed 3 times"):
        list(by_processes(Deadly("", "", 1, 1), model, 1, [0], lambda done: None))


def test_another_model_in_the_worker(tiny_model: Path) -> None:
    with pytest.raises(UserError, match="a worker found another model"):
        WorkerModel(str(tiny_model), (), "another", 1).load()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"engine": "spark"}, "engine = 'spark' is unknown: choose one of one, processes, ray"),
        ({"engine": "processes", "workers": 0}, "workers = 0 is impossible"),
        ({"workers": 2}, "the engine one takes no workers: workers need --engine processes or ray"),
        ({"engine": "processes", "address": "auto"}, "the engine processes takes no address"),
        (
            {"engine": "processes", "model": object()},
            "the engine processes needs a sentence-transformers model",
        ),
        pytest.param(
            {"engine": "ray", "address": "127.0.0.1:1"},
            r"no cluster answers at 127\.0\.0\.1:1 ",
            marks=needs_ray,
        ),
    ],
)
def test_wrong_options(
    tmp_path: Path, tiny_model: Path, options: dict[str, Any], line: str
) -> None:
    with pytest.raises(UserError, match=line):
        encode(**{"model": tiny_model, "texts": ["a"], "output": tmp_path / "v", **options})
    assert not (tmp_path / "v").exists()


def test_without_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, before the model and the files are looked at."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        UserError, match=r"needs ray, which is not installed: pip install 'isotrope\[ray\]'"
    ):
        encode("no-model", "no-file.txt", tmp_path / "v", engine="ray")
