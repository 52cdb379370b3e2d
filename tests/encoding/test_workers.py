"""Shards as tasks of Ray Data: the same bytes as one process, whoever is killed."""

import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import util
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from helpers.refusals import refused
from helpers.small_shards import contents, lines
from isotrope.encoder import load
from isotrope.encoder.fast.half import has_bf16
from isotrope.encoder.fast.int8 import has_int8
from isotrope.encoding.encode import encode
from isotrope.encoding.engines import WorkerModel, portable_error
from isotrope.encoding.output import Destination
from isotrope.encoding.shards import ShardTask
from isotrope.errors import UserError

DTYPES = [
    dtype
    for dtype, is_able in (("float32", True), ("bf16", has_bf16()), ("int8", has_int8()))
    if is_able
]
needs_ray = pytest.mark.skipif(util.find_spec("ray") is None, reason="needs isotrope[ray]")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As each worker has: the number of threads decides the last bits of a vector."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def workers_of(process: psutil.Process) -> list[psutil.Process]:
    """Those that encode."""
    children = process.children(recursive=True)
    return [child for child in children if "MapWorker" in " ".join(child.cmdline())]


def parts(folder: Path) -> dict[str, bytes]:
    return {name: part for name, part in contents(folder).items() if name.startswith("part")}


@needs_ray
@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_to_one_process(
    dtype: str, tmp_path: Path, tiny_model: Path, corpus_file: Path
) -> None:
    """All files, byte by byte, also of a loaded model, and in the dtype that the driver has chosen."""
    file = lines(corpus_file, tmp_path / "c.txt", 60)
    one = encode(tiny_model, file, tmp_path / "one", shard=20, dtype=dtype)
    two = encode(
        load(tiny_model), file, tmp_path / "two", shard=20, dtype=dtype, engine="ray", workers=2
    )
    assert parts(one) == parts(two)
    assert len(parts(one)) == 3


@needs_ray
@pytest.mark.slow
def test_a_killed_worker_is_replaced(tmp_path: Path, tiny_model: Path, corpus_file: Path) -> None:
    killed: list[psutil.Process] = []
    file = lines(corpus_file, tmp_path / "c.txt", 100)
    one = encode(tiny_model, file, tmp_path / "one", shard=13, batch_size=4)

    def kill(done: int) -> None:
        if done >= 26 and not killed:
            killed.append(workers_of(psutil.Process())[0])
            killed[0].kill()

    options = {"shard": 13, "batch_size": 4, "engine": "ray", "workers": 2}
    two = encode(tiny_model, file, tmp_path / "two", progress=kill, **options)
    assert killed
    assert contents(one) == contents(two)
    assert len(parts(one)) == 8
    assert not workers_of(psutil.Process())


@needs_ray
@pytest.mark.slow
def test_parts_at_a_url(tmp_path: Path, tiny_model: Path, corpus_file: Path) -> None:
    """Each worker uploads its own."""
    file = lines(corpus_file, tmp_path / "c.txt", 60)
    one = encode(tiny_model, file, tmp_path / "one", shard=20)
    (tmp_path / "two").mkdir()
    url = encode(tiny_model, file, f"file://{tmp_path}/two", shard=20, engine="ray", workers=2)
    assert url == f"file://{tmp_path}/two"
    there = contents(tmp_path / "two")
    assert {**there, "_manifest.json": b""} == {**contents(one), "_manifest.json": b""}


@needs_ray
@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_driver_goes_on(
    tmp_path: Path, tiny_model: Path, corpus_file: Path, sent: int
) -> None:
    """Its workers end with it, and one process may do the rest. No script needs a main guard."""
    file = lines(corpus_file, tmp_path / "c.txt", 1500)
    script = tmp_path / "job.py"
    script.write_text(
        "import sys, time, torch\nfrom isotrope import encode\n"
        "torch.set_num_threads(1)\n"
        "say = lambda done: (print(done, flush=True), time.sleep(0.2))\n"
        "encode(*sys.argv[1:], shard=50, engine='ray', workers=2, progress=say)\n"
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
        driver.wait(60)
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive
    assert 0 < len(list(out.glob("part-*"))) <= 30
    first = (out / "part-00000.parquet").stat().st_mtime_ns
    encode(tiny_model, file, out, shard=50)
    assert (out / "part-00000.parquet").stat().st_mtime_ns == first
    assert contents(out) == contents(encode(tiny_model, file, tmp_path / "whole", shard=50))


@needs_ray
@pytest.mark.slow
def test_a_failing_worker_shows_its_own_error(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task that is sent to it names rows that are not there."""
    make_task = Destination.task

    def without_rows(*given: Any, **options: Any) -> ShardTask:
        return replace(make_task(*given, **options), rows=str(tmp_path / "gone.parquet"))

    monkeypatch.setattr(Destination, "task", without_rows)
    with pytest.raises(FileNotFoundError, match=r"gone\.parquet"):
        encode(tiny_model, ["a"], tmp_path / "v", engine="ray", workers=1)


def test_errors_travel_between_processes() -> None:
    class Local(Exception):
        pass

    own = pickle.loads(portable_error(UserError("a problem", "a remedy", "a-code")))
    assert (str(own), own.code) == ("a problem: a remedy", "a-code")
    assert isinstance(pickle.loads(portable_error(KeyError("x"))), KeyError)
    unknown = pickle.loads(portable_error(Local("its words")))  # its class cannot be sent
    assert isinstance(unknown, RuntimeError)
    assert "its words" in str(unknown)


def test_another_model_in_the_worker(tiny_model: Path) -> None:
    with pytest.raises(UserError) as error:
        WorkerModel(str(tiny_model), (), "another", 1).load()
    assert error.value.code == "another-model"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"engine": "spark"}, "unknown-name"),
        ({"engine": "processes"}, "unknown-name"),
        ({"engine": "ray", "workers": 0}, "below-one"),
        ({"workers": 2}, "engine-options"),
        ({"address": "auto"}, "engine-options"),
        ({"engine": "ray", "model": object()}, "engine-options"),
        pytest.param({"engine": "ray", "address": "127.0.0.1:1"}, "no-cluster", marks=needs_ray),
    ],
)
def test_wrong_options(
    tmp_path: Path, tiny_model: Path, options: dict[str, Any], code: str
) -> None:
    with pytest.raises(UserError) as error:
        encode(**{"model": tiny_model, "texts": ["a"], "output": tmp_path / "v", **options})
    assert error.value.code == code
    assert not (tmp_path / "v").exists()


def test_without_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, before the model and the files are looked at."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with refused("package-missing"):
        encode("no-model", "no-file.txt", tmp_path / "v", engine="ray")
