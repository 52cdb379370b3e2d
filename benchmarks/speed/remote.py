"""What it costs to train on a corpus in an object store: memory, and the time until the first step;
writes JSON.

    python -m benchmarks.speed.remote FOLDER [--gigabytes 5] \\
        [--output docs/results/performance/remote.json]

A corpus of JSON Lines, four kilobytes a text, is uploaded to an object store on this machine
(moto's, a process of its own) as objects of 100 MB. ``isotrope train`` trains isotrope/tiny for 100
steps on a sample of it, in a second process, whose memory is looked at twice a second.
``anonymous`` is what only the process itself can free. Then it trains on one of the objects: the
size of the corpus is no reason for memory that this needs, too. A last corpus is small: it is read
from the store and from the disk, and the ratio is what the way costs. All are deleted in the end.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import psutil
from datasets import disable_progress_bars

from benchmarks.timing import show
from isotrope.text.corpus import build_texts
from isotrope.text.files import find_sources
from isotrope.text.tables import Columns

STEPS, BATCH, EVERY = 100, 8, 0.5
PART = 100_000_000  # bytes of an object
# how the lines of the command begin
PHASES = ("checked", "read", "making tokens", "trained", "saving the model")


def corpus_parts(size: int) -> Iterator[bytes]:
    """JSON Lines of distinct texts, four kilobytes each, in parts of 100 MB; so many bytes in all."""
    generator = random.Random(0)
    words = [
        "".join(generator.choices("aeioubcdfglmnprst", k=generator.randint(2, 9)))
        for _ in range(5000)
    ]
    texts = [" ".join(generator.choices(words, k=640)) for _ in range(1000)]
    number = 0
    for _ in range(size // PART):
        part = bytearray()
        while len(part) < PART:
            text = texts[number % len(texts)]
            part += f'{{"id": {number}, "text": "{number} {text}"}}\n'.encode()
            number += 1
        yield bytes(part)


@contextmanager
def object_store() -> Iterator[fsspec.AbstractFileSystem]:
    """An object store with the bucket ``corpus``, in a process of its own, which this one and its
    children find.
    """
    code = "from moto.server import ThreadedMotoServer as S; s = S('127.0.0.1', 0, verbose=False); s.start(); "
    code += "print(s.get_host_and_port()[1], flush=True); s._thread.join()"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{int(process.stdout.readline())}",
        "no_proxy": "127.0.0.1",
    }
    try:
        system = fsspec.filesystem("s3")
        system.mkdir("corpus")
        yield system
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True, slots=True)
class Look:
    """What a process held at a moment."""

    seconds: float  # since it began
    phase: str
    resident: float  # MB
    anonymous: float  # MB


def training_command(url: str, output: Path) -> list[str]:
    """A training of 100 steps."""
    options = {
        "--model": "isotrope/tiny",
        "--text-column": "text",
        "--max-texts": str(STEPS * BATCH),
        "--dev": "none",
        "--labels": "none",
        "--output": str(output),
    }
    words = [word for option in options.items() for word in option]
    settings = ["--set", f"train.batch_size={BATCH}", "--set", "train.epochs=1"]
    return [sys.executable, "-m", "isotrope", "train", url, *words, *settings]


def watched(command: list[str], log: Path) -> list[Look]:
    """Run a command, and look at its memory until it ends."""
    began = time.perf_counter()
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    seen = psutil.Process(process.pid)
    looks = list[Look]()
    while process.poll() is None:
        memory = seen.memory_info()
        phase = phase_of(log.read_text(encoding="utf-8"))
        seconds = time.perf_counter() - began
        anonymous = (memory.rss - memory.shared) / 1e6
        looks.append(Look(seconds, phase, memory.rss / 1e6, anonymous))
        time.sleep(EVERY)
    if process.returncode:
        raise SystemExit(log.read_text(encoding="utf-8"))
    return looks


def train(url: str, folder: Path) -> dict[str, Any]:
    """A training of 100 steps, and the memory of its process in each phase."""
    began = time.perf_counter()
    looks = watched(training_command(url, folder / "run"), folder / "log.txt")
    seconds = round(time.perf_counter() - began, 1)

    trained = [round(look.seconds, 1) for look in looks if look.phase == "trained"]
    rows = [
        [round(look.seconds, 1), look.phase, round(look.resident), round(look.anonymous)]
        for look in looks
    ]
    return {
        "seconds": seconds,
        "seconds_until_the_first_line_of_steps": trained[0] if trained else None,
        "phases": {
            phase: summary([look for look in looks if look.phase == phase])
            for phase in ("start", *PHASES)
        },
        "looks": {
            "columns": ["seconds", "phase", "resident MB", "anonymous MB"],
            "rows": thinned(rows),
        },
        "kept_mb": {path.name: size_of(path) for path in sorted((folder / "cache").iterdir())},
    }


def phase_of(log: str) -> str:
    """What the command does, by its last line."""
    for line in reversed(log.splitlines()):
        if phase := next((phase for phase in PHASES if line.startswith(phase)), None):
            return phase
    return "start"


def summary(looks: list[Look]) -> dict[str, Any] | None:
    """Of one phase: its time, the peak, and the growth from its first tenth to its last, in MB."""
    if len(looks) < 2:
        return None
    tenth = max(1, len(looks) // 10)
    found: dict[str, Any] = {"seconds": round(looks[-1].seconds - looks[0].seconds, 1)}
    memory = {
        "resident": [look.resident for look in looks],
        "anonymous": [look.anonymous for look in looks],
    }
    for name, values in memory.items():
        found[f"{name}_peak_mb"] = round(max(values))
        found[f"{name}_growth_mb"] = round(max(values[-tenth:]) - max(values[:tenth]))
    return found


def thinned(rows: list[Any], most: int = 120) -> list[Any]:
    return rows[:: max(1, len(rows) // most)]


def size_of(path: Path) -> float:
    return round(sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 1e6, 1)


def ratio(url: str, path: Path, folder: Path) -> dict[str, float]:
    """Processor time to open a small corpus from the server and from the disk, the best of three;
    no cache is used.
    """
    found: dict[str, float] = {}
    for turn in range(3):
        for name, place in (("url", url), ("disk", str(path))):
            os.environ["ISOTROPE_CACHE"] = str(folder / f"{name}-{turn}")
            began = time.process_time()
            build_texts(find_sources([place]), Columns("text"), folder / f"{name}-{turn}")
            found[name] = min(found.get(name, 1e9), round(time.process_time() - began, 2))
    return found | {
        "megabytes": round(path.stat().st_size / 1e6, 1),
        "ratio": round(found["url"] / found["disk"], 2),
    }


def measure(folder: Path, size: int) -> dict[str, Any]:
    """All of it; what was written is deleted."""
    (folder / "work").mkdir(parents=True)
    os.environ["TMPDIR"] = str(folder)  # where the store keeps its objects
    try:
        with object_store() as store:
            os.environ["ISOTROPE_CACHE"] = str(folder / "work/cache")
            small = folder / "work/small.jsonl"
            small.write_bytes(next(corpus_parts(PART))[: PART // 2].rpartition(b"\n")[0])
            store.put_file(str(small), "corpus/small.jsonl")
            rows = 0
            for number, part in enumerate(corpus_parts(size)):
                store.pipe_file(f"corpus/large/{number:03}.jsonl", part)
                rows += part.count(b"\n")
            found: dict[str, Any] = {
                "gigabytes": round(store.du("corpus/large") / 1e9, 2),
                "rows": rows,
            }
            found |= {"training": train("s3://corpus/large/", folder / "work")}
            shutil.rmtree(folder / "work/run")
            found |= {
                "training_on_one_object": train("s3://corpus/large/000.jsonl", folder / "work")
            }
            return found | {"opening": ratio("s3://corpus/small.jsonl", small, folder / "work")}
    finally:
        shutil.rmtree(folder / "work")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    disable_progress_bars()
    show(measure(asked.folder, int(asked.gigabytes * 1e9)), asked.output)
