"""What a corpus costs: memory as it grows, and its tokens, ahead of time and within the step;
prints JSON.

    python -m benchmarks.speed.corpus [--lines 500000 1500000 5000000] [--output FILE.json]

Each size is a process of its own, on a file of generated lines. It first does everything once on a
small corpus, with isotrope/tiny in memory; what it needs beyond that, divided by the lines, is
``bytes_a_line``:

- ``opening``: the peak of resident memory while the file is cleaned, deduplicated and written to the cache;
- ``training``: anonymous memory, which only the process itself can free, after its tokens were made and 2000 batches
  of 64 random rows came through isotrope's sampler and collator. Pages of mapped files are not
counted here, since the   system takes them back when it needs the memory; they stand under
``mapped_mb``;
- ``teacher``: the same after 2000 look-ups in a mapped file of embeddings, 384 numbers a line.

``slope`` is the growth from the smallest corpus to the largest, a line. ``tokens`` compares a batch
of 64 sentences from the store with one that sentence-transformers' collator makes from text, in
milliseconds of processor time.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import disable_progress_bars
from rich.console import Console
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.data_collator import SentenceTransformerDataCollator

from benchmarks.timing import show
from isotrope import load
from isotrope.teachers._model import RunRows, teacher_of_vectors
from isotrope.text.corpus import Texts, build_texts
from isotrope.text.files import find_sources
from isotrope.text.sample import PermutedBatches
from isotrope.text.tables import Columns
from isotrope.text.tokens import token_data
from isotrope.types import Batch

BATCH, LENGTH, BATCHES, WIDTH, SMALL = 64, 32, 2000, 384, 20_000


def memory(field: str) -> int:
    """A size in bytes from the system's account of this process: VmHWM, RssAnon, RssFile."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * int(status.split(f"{field}:")[1].split()[0])


def generate(path: Path, begin: int, count: int) -> Path:
    """Distinct lines of six words."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(
            f"the generated sentence of number {i}\n" for i in range(begin, begin + count)
        )
    return path


def read(model: SentenceTransformer, corpus: Texts) -> None:
    """The data's side of a run: tokens, and the batches of the first steps."""
    dataset, collator = token_data(model, corpus, None, LENGTH, Console(quiet=True))
    for rows in islice(PermutedBatches(corpus, BATCH, seed=0), BATCHES):
        collator(dataset.__getitems__(rows))


def teach(lines: int, folder: Path) -> None:
    """A teacher's side of it. The file is sparse, so that it fills no disk; its pages are mapped as
    any others.
    """
    path = folder / f"{lines}.bin"
    with path.open("wb") as file:
        file.truncate(4 * WIDTH * lines)
    store = teacher_of_vectors(
        np.memmap(path, np.float32, "r", shape=(lines, WIDTH)),
        RunRows(range(lines), np.arange(lines)),
    )
    for rows in islice(PermutedBatches(range(lines), BATCH, seed=1), BATCHES):
        store(Batch(torch.tensor(rows), torch.Generator()))


def one(lines: int, folder: Path) -> dict[str, Any]:
    """A corpus of so many lines, in this process."""
    cache, model = folder / "corpora", load("isotrope/tiny", device="cpu")
    read(
        model,
        build_texts(find_sources([generate(folder / "small.txt", 0, SMALL)]), Columns(), cache),
    )
    teach(SMALL, folder)
    file = generate(folder / "big.txt", SMALL, lines)
    before, peak, mapped = memory("RssAnon"), memory("VmHWM"), memory("RssFile")
    corpus = build_texts(find_sources([file]), Columns(), cache)
    opening = memory("VmHWM") - peak
    began = time.perf_counter()
    read(model, corpus)
    seconds, training = time.perf_counter() - began, memory("RssAnon") - before
    teach(lines, folder)
    found = {
        "opening": opening,
        "training": training,
        "teacher": memory("RssAnon") - before - training,
    }
    return {
        "lines": len(corpus),
        "bytes": found,
        "bytes_a_line": {name: round(size / lines, 2) for name, size in found.items()},
        "mapped_mb": round((memory("RssFile") - mapped) / 1e6),
        "on_disk_mb": round(sum(path.stat().st_size for path in folder.rglob("*.bin")) / 1e6),
        "seconds_for_tokens_and_batches": round(seconds, 1),
    }


def tokens(folder: Path) -> dict[str, float]:
    """Milliseconds a batch: from the store, and from text."""
    model = load("isotrope/tiny", device="cpu")
    corpus = build_texts(
        find_sources([generate(folder / "text.txt", 0, SMALL)]), Columns(), folder / "corpora"
    )
    plain = SentenceTransformerDataCollator(model.preprocess, max_length=LENGTH)
    systems = {
        "store": token_data(model, corpus, None, LENGTH, Console(quiet=True)),
        "text": (corpus.dataset, plain),
    }
    found = {}
    for name, (dataset, collator) in systems.items():
        times = []
        for rows in islice(PermutedBatches(corpus, BATCH, seed=0), 200):
            began = time.process_time()
            collator(dataset.__getitems__(rows))
            times.append(time.process_time() - began)
        found[name] = round(1000 * sorted(times)[len(times) // 2], 3)
    return found


def measure(sizes: list[int]) -> dict[str, Any]:
    """All sizes, one after the other, so that only one lies on the disk."""
    rows = []
    for lines in sizes:
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {"ISOTROPE_CACHE": folder}
            command = [sys.executable, "-m", "benchmarks.speed.corpus", "--one", str(lines), folder]
            done = subprocess.run(
                command, env=environment, check=True, stdout=subprocess.PIPE, text=True
            )
            rows.append(json.loads(done.stdout.splitlines()[-1]))
    first, last = rows[0], rows[-1]
    more = max(1, last["lines"] - first["lines"])
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ISOTROPE_CACHE"] = folder
        batch = tokens(Path(folder))
    slope = {
        name: round((last["bytes"][name] - size) / more, 2) for name, size in first["bytes"].items()
    }
    return {"sizes": rows, "slope": slope, "tokens": batch}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, nargs="+", default=[500_000, 1_500_000, 5_000_000])
    parser.add_argument(
        "--one", nargs=2, metavar=("LINES", "FOLDER"), help="one size, in this process"
    )
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    disable_progress_bars()
    if asked.one:
        print(json.dumps(one(int(asked.one[0]), Path(asked.one[1]))))
    else:
        show(measure(asked.lines), asked.output)
