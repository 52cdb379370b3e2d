"""How encoding grows with the cores: many short texts by one thread, by two, … by all cores.

    python -m benchmarks.speed.cores minilm wiki_train_00.txt.xz [--sentences 1000] \\
        [--repetitions 5] [--dtypes float32 bf16] [--output FILE.json]

Each number of threads is a process of its own, for isotrope and for sentence-transformers with its
default batch. They take turns on the same sentences; an idle machine is needed. Ratios are a second
of one thread over a second of more, per round.
"""

import argparse
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.timing import interleave, lines, ratio, show
from isotrope.training.processes import environment

WORKER = """
import json, sys, time, torch
threads, who, shape, dtype = int(sys.argv[1]), *sys.argv[2:]
torch.set_num_threads(threads)
name = "isotrope/" + shape
if who == "isotrope":
    from isotrope import load
    from isotrope.encoder.embed import vectors_of
    model = load(name, device="cpu", dtype=dtype)
    encode = lambda texts: vectors_of(model, texts, batch_size=64)
else:
    from sentence_transformers import SentenceTransformer
    from isotrope.encoder.locate import locate
    model = SentenceTransformer(locate(name), device="cpu", model_kwargs={"dtype": dtype})
    encode = lambda texts: model.encode(texts, show_progress_bar=False)
texts = json.loads(sys.stdin.readline())
print("ready", flush=True)
for _ in iter(sys.stdin.readline, ""):
    began = time.perf_counter()
    encode(texts)
    print(time.perf_counter() - began, flush=True)
"""


class Worker:
    """A process that encodes the texts whenever it is asked."""

    def __init__(self, threads: int, who: str, shape: str, dtype: str, texts: list[str]) -> None:
        environ = os.environ | {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
        command = [sys.executable, "-c", WORKER, str(threads), who, shape, dtype]
        self.process = subprocess.Popen(
            command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._ask(json.dumps(texts))

    def seconds(self, repetition: int) -> float:
        """How long the texts take."""
        return float(self._ask(""))

    def _ask(self, line: str) -> str:
        assert self.process.stdin
        assert self.process.stdout
        print(line, file=self.process.stdin, flush=True)
        return self.process.stdout.readline()


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """Texts a second of each system and number of threads, and the ratio to its one thread."""
    texts = lines(asked.text, asked.sentences)
    counts = [1]
    while counts[-1] < (os.cpu_count() or 1):
        counts.append(min(2 * counts[-1], os.cpu_count() or 1))

    kinds = {f"isotrope, {dtype}": ("isotrope", dtype) for dtype in asked.dtypes}
    kinds["sentence-transformers, float32"] = ("theirs", "float32")
    results = {}
    for name, (who, dtype) in kinds.items():
        workers = {count: Worker(count, who, asked.shape, dtype, texts) for count in counts}
        turns = {str(count): partial(Worker.seconds, each) for count, each in workers.items()}
        times = interleave(turns, asked.repetitions)
        for worker in workers.values():
            worker.process.kill()
        middle = {count: sorted(found)[len(found) // 2] for count, found in times.items()}
        results[name] = {
            "a_second": {count: round(len(texts) / each) for count, each in middle.items()},
            "times_one_thread": {
                str(count): ratio(times, "1", str(count)) for count in counts if count > 1
            },
        }
    return {
        "shape": asked.shape,
        "text": asked.text.name,
        "sentences": len(texts),
        "results": results,
        "environment": environment(),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shape", choices=["minilm", "small", "tiny"])
    parser.add_argument("text", type=Path)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bf16"])
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    show(measure(asked), asked.output)
