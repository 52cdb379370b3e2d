"""What it costs to train on a corpus behind a URL: memory, and the time until the first step; writes JSON.

    python benchmarks/remote.py FOLDER [--gigabytes 5] [--output docs/results/performance/remote.json]

A corpus of JSON Lines, four kilobytes a text, is written to FOLDER. A server of files that knows ranges, a process of
its own, hands it out. ``isotrope train`` trains isotrope/tiny for 100 steps on a sample of it, in a second process,
whose memory is looked at twice a second. ``anonymous`` is what only the process itself can free. A second corpus is
small: it is read from the server and from the disk, and the ratio is what the way costs. Both are deleted in the end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil

from datasets import disable_progress_bars
from isotrope.text.corpus import open_corpus
from timing import show

STEPS, BATCH, EVERY = 100, 8, 0.5
PHASES = ("checked", "read", "making tokens", "trained", "saving the model")  # how the lines of the command begin


def write_corpus(path: Path, size: int) -> Path:
    """Distinct texts of four kilobytes each; so many bytes in all."""
    generator = random.Random(0)
    words = ["".join(generator.choices("aeioubcdfglmnprst", k=generator.randint(2, 9))) for _ in range(5000)]
    texts = [" ".join(generator.choices(words, k=640)) for _ in range(1000)]
    number = 0
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            rows = (f'{{"id": {number + i}, "text": "{number + i} {text}"}}\n' for i, text in enumerate(texts))
            file.writelines(rows)
            number += len(texts)
    return path


def serve(folder: Path) -> None:
    """The files of a folder, whole or in parts; the port is printed."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, body: bool) -> None:
            with (folder / self.path.strip("/")).open("rb") as file:
                state = os.fstat(file.fileno())
                asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
                begin, end = (int(asked[1]), int(asked[2]) + 1) if asked else (0, state.st_size)
                end = min(end, state.st_size)
                self.send_response(206 if asked else 200)
                self.send_header("Content-Length", str(end - begin))
                self.send_header("ETag", f"{state.st_mtime_ns}-{state.st_size}")
                if asked:
                    self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{state.st_size}")
                self.end_headers()
                while body and begin < end:
                    begin += os.sendfile(self.connection.fileno(), file.fileno(), begin, end - begin)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of the files of a folder, which another process serves."""
    process = subprocess.Popen([sys.executable, __file__, str(folder), "--serve"], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


def train(url: str, folder: Path) -> dict[str, Any]:
    """A training of 100 steps, and the memory of its process in each phase."""
    command = [sys.executable, "-m", "isotrope.cli", "train", url, "--backbone", "isotrope/tiny", "--text", "text"]
    command += ["--sentences", str(STEPS * BATCH), "--set", f"train.batch_size={BATCH}", "--set", "train.epochs=1"]
    command += ["--dev", "none", "--test", "none", "--output", str(folder / "run")]
    began, log = time.perf_counter(), folder / "log.txt"
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    seen = psutil.Process(process.pid)
    looks = list[tuple[float, str, float, float]]()
    while process.poll() is None:
        memory, phase = seen.memory_info(), phase_of(log.read_text(encoding="utf-8"))
        now = time.perf_counter() - began
        looks.append((now, phase, memory.rss / 1e6, (memory.rss - memory.shared) / 1e6))
        time.sleep(EVERY)
    if process.returncode:
        raise SystemExit(log.read_text(encoding="utf-8"))
    rounded = [[round(seconds, 1), phase, round(rss), round(anonymous)] for seconds, phase, rss, anonymous in looks]
    return {
        "seconds": round(time.perf_counter() - began, 1),
        "seconds_until_the_first_line_of_steps": next(
            (round(look[0], 1) for look in looks if look[1] == "trained"), None
        ),
        "phases": {phase: summary([look for look in looks if look[1] == phase]) for phase in ("start", *PHASES)},
        "looks": {"columns": ["seconds", "phase", "resident MB", "anonymous MB"], "rows": thinned(rounded)},
        "kept_mb": {path.name: size_of(path) for path in sorted((folder / "cache").iterdir())},
    }


def phase_of(log: str) -> str:
    """What the command does, by its last line."""
    for line in reversed(log.splitlines()):
        if phase := next((phase for phase in PHASES if line.startswith(phase)), None):
            return phase
    return "start"


def summary(looks: list[tuple[float, str, float, float]]) -> dict[str, Any] | None:
    """Of one phase: its time, the peak, and the growth from its first tenth to its last, in MB."""
    if len(looks) < 2:
        return None
    tenth = max(1, len(looks) // 10)
    found: dict[str, Any] = {"seconds": round(looks[-1][0] - looks[0][0], 1)}
    for place, name in ((2, "resident"), (3, "anonymous")):
        values = [float(look[place]) for look in looks]
        found[f"{name}_peak_mb"] = round(max(values))
        found[f"{name}_growth_mb"] = round(max(values[-tenth:]) - max(values[:tenth]))
    return found


def thinned(rows: list[Any], most: int = 120) -> list[Any]:
    return rows[:: max(1, len(rows) // most)]


def size_of(path: Path) -> float:
    return round(sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 1e6, 1)


def ratio(url: str, path: Path, folder: Path) -> dict[str, float]:
    """Processor time to open a small corpus from the server and from the disk, the best of three; no cache is used."""
    found: dict[str, float] = {}
    for turn in range(3):
        for name, place in (("url", url), ("disk", str(path))):
            os.environ["ISOTROPE_CACHE"] = str(folder / f"{name}-{turn}")
            began = time.process_time()
            open_corpus(place, cache=folder / f"{name}-{turn}", text="text")
            found[name] = min(found.get(name, 1e9), round(time.process_time() - began, 2))
    return found | {"megabytes": size_of(path.parent), "ratio": round(found["url"] / found["disk"], 2)}


def measure(folder: Path, size: int) -> dict[str, Any]:
    """All of it; what was written is deleted."""
    for name in ("large", "small", "work"):
        (folder / name).mkdir(parents=True)
    try:
        small = write_corpus(folder / "small/lines.jsonl", 50_000_000)
        large = write_corpus(folder / "large/lines.jsonl", size)
        with serving(folder) as base:
            os.environ["ISOTROPE_CACHE"] = str(folder / "work/cache")
            found: dict[str, Any] = {"gigabytes": round(large.stat().st_size / 1e9, 2), "rows": rows_of(large)}
            found |= {"training": train(f"{base}/large/lines.jsonl", folder / "work")}
            return found | {"opening": ratio(f"{base}/small/lines.jsonl", small, folder / "work")}
    finally:
        for name in ("large", "small", "work"):
            shutil.rmtree(folder / name)


def rows_of(path: Path) -> int:
    with path.open("rb") as file:
        file.seek(-20_000, os.SEEK_END)
        return 1 + int(json.loads(file.read().splitlines()[-1])["id"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--serve", action="store_true", help="serve the folder, and nothing else")
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.folder)
    disable_progress_bars()
    show(measure(asked.folder, int(asked.gigabytes * 1e9)), asked.output)
