"""Bulk encoding by size and by engine: time, the memory of the command, and whether the files are
the same.

    # docs/results/performance/engines.json; 1 hour on two cores
    python -m benchmarks.speed.engines WORK --data DATA

The model has one layer and random weights, so that everything but the model is what costs. A line
is four to eight words of Wikipedia. One process with one thread encodes 10⁵, 10⁶ and 10⁷ lines:
their cost a line is what docs/encode.md counts with. Then two Ray workers with one thread each
encode the 10⁷ lines, and one of them is killed in the middle. Last, one process with two threads
and the two workers take turns on 10⁶ lines: the ratio of their speed.
"""

import argparse
import hashlib
import lzma
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow.parquet as pq
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer, BertConfig, BertModel

from benchmarks.paths import RESULTS
from isotrope.encoder.load import load
from isotrope.encoder.locate import locate
from isotrope.store.files import write_json
from isotrope.training.processes import environment

RESULT = RESULTS / "performance" / "engines.json"
SIZES = (10**5, 10**6, 10**7)
WIDTH, WORKERS, ROUNDS = 32, 2, 3
PAUSE = 0.5  # seconds between two looks


def make_model(folder: Path) -> None:
    """One layer over the vocabulary of isotrope/tiny, saved as a plain encoder."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(locate("isotrope/tiny"))
    shape = {
        "hidden_size": WIDTH,
        "intermediate_size": 2 * WIDTH,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    BertModel(BertConfig(vocab_size=len(tokenizer), **shape)).save_pretrained(folder / "raw")
    tokenizer.save_pretrained(folder / "raw")
    model: SentenceTransformer = load(folder / "raw", "mean")
    model.save(str(folder / "model"))


def windows(data: Path) -> Iterator[str]:
    """Parts of four to eight words, ten of each sentence."""
    generator = np.random.default_rng(0)
    for path in sorted((data / "wiki").glob("wiki_train_*.txt.xz")):
        with lzma.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                words = line.split()
                for start, size in zip(
                    generator.random(10), generator.integers(4, 9, 10), strict=True
                ):
                    first = int(start * max(1, len(words) - size))
                    yield " ".join(words[first : first + size])


def write_lines(data: Path, folder: Path) -> None:
    """One file of each size, and the next begins with the lines of the one before."""
    files = {size: (folder / f"{size}.txt").open("w", encoding="utf-8") for size in SIZES}
    for number, line in zip(range(max(SIZES)), windows(data), strict=False):
        for size, file in files.items():
            if number < size:
                file.write(line + "\n")
    for file in files.values():
        file.close()


def checksums(folder: Path) -> dict[str, str]:
    """Of every file that holds vectors."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.glob("*.parquet"))
    }


def run(work: Path, size: int, threads: int, *options: str, kill: bool = False) -> dict[str, Any]:
    """Encode in a new process. Seconds, the command's own memory, and what it wrote."""
    output = work / "vectors"
    shutil.rmtree(output, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "isotrope",
        "encode",
        str(work / "model"),
        str(work / f"{size}.txt"),
    ]
    began = time.monotonic()
    running = subprocess.Popen(
        [*command, "--output", str(output), *options],
        env=os.environ | {"OMP_NUM_THREADS": str(threads)},
    )
    process, looks, killed = psutil.Process(running.pid), list[tuple[float, int]](), 0
    while running.poll() is None:
        looks.append((done_of(output), process.memory_info().rss))
        if kill and not killed and looks[-1][0] > size / 2:
            actors = [
                child
                for child in process.children(recursive=True)
                if "_Actor" in " ".join(child.cmdline())
            ]
            actors[0].kill()
            killed = 1
        time.sleep(PAUSE)
    seconds = time.monotonic() - began
    if running.returncode:
        raise SystemExit(running.returncode)
    halves = [
        [held for done, held in looks if low < done <= high]
        for low, high in ((0, size / 2), (size / 2, size))
    ]
    return {
        "lines": size,
        "threads": threads,
        "options": options,
        "seconds": seconds,
        "lines_a_second": size / seconds,
        "killed": killed,
        "memory_mb": max(held for _, held in looks) / 1e6,
        "memory_mb_of_each_half": [max(half, default=0) / 1e6 for half in halves],
        "files": checksums(output),
        "bytes": sum(path.stat().st_size for path in output.glob("*.parquet")),
    }


def done_of(output: Path) -> int:
    """Rows that count so far."""
    return sum(pq.read_metadata(part).num_rows for part in output.glob("part-*.parquet"))


def main() -> None:
    """Every run; the result is written after each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path, help="a new folder for text and vectors, 4 GB")
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    given.work.mkdir(parents=True)
    make_model(given.work)
    write_lines(given.data, given.work)
    ray = ("--engine", "ray", "--workers", str(WORKERS))
    record: dict[str, Any] = {"workers": WORKERS, "width": WIDTH, "one": []}
    for size in SIZES:
        record["one"].append(run(given.work, size, 1))
        write_json(RESULT, record)
    record["ray"] = run(given.work, SIZES[-1], WORKERS, *ray, kill=True)
    record["equal"] = record["ray"]["files"] == record["one"][-1]["files"]
    write_json(RESULT, record)
    both = [
        (run(given.work, SIZES[1], WORKERS), run(given.work, SIZES[1], WORKERS, *ray))
        for _ in range(ROUNDS)
    ]
    record["ratio"] = sorted(one["seconds"] / workers["seconds"] for one, workers in both)
    for found in (*record["one"], record["ray"]):
        del found["files"]  # their equality is kept
    write_json(RESULT, record | {"environment": environment()})


if __name__ == "__main__":
    main()
