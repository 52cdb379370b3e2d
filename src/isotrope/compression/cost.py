"""What two models cost: time, weights and memory, on this machine, in one run, with one thread of
the processor.

``python -m isotrope.compression.cost MODEL`` reads texts (JSON) and prints how many bytes their
encoding needs. It is a process of its own, since what another model has used before would be used
again.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import psutil
import torch
from sentence_transformers import SentenceTransformer

from isotrope.encoder import load
from isotrope.encoder.embed import freed_memory, vectors_of
from isotrope.encoder.length import limit_length

COST_LENGTH = 128  # tokens of a text
COST_BATCH = 32
ROUNDS = 5  # each model in each; one more comes first and is not counted
_WARM_UP = "isotrope/tiny"
_PAUSE = 0.002  # seconds between two looks


def costs(
    teacher: SentenceTransformer,
    student: SentenceTransformer,
    names: Sequence[str],
    texts: Sequence[str],
) -> dict[str, Any]:
    """Speed, weights and memory of two models, which are moved to the processor; time is the
    processor's.

    By the ``names`` of the two, `isotrope.load` loads each anew, to see how much memory it needs.

    Returns:
        "texts"; "speed": texts a second of each; "faster": the median, smallest and largest ratio
        of a round; "weights": bytes of each; "memory": bytes of each, None where that could not be
        measured.
    """
    models = [teacher.to("cpu"), student.to("cpu")]
    seconds: list[list[float]] = [[], []]
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        # they take turns, so that other work on the machine meets both
        for number in range(ROUNDS + 1):
            for place in (0, 1) if number % 2 else (1, 0):
                began = time.process_time()
                _encode(models[place], texts)
                seconds[place].append(max(time.process_time() - began, 1e-6))
    finally:
        torch.set_num_threads(count)
    seconds = [each[1:] for each in seconds]  # the first round is slower
    ratios = [slow / fast for slow, fast in zip(*seconds, strict=True)]
    return {
        "texts": len(texts),
        "speed": [len(texts) / statistics.median(each) for each in seconds],
        "faster": {"median": statistics.median(ratios), "low": min(ratios), "high": max(ratios)},
        "weights": [
            sum(t.numel() * t.element_size() for t in model.state_dict().values())
            for model in models
        ],
        "memory": [peak_memory(name, texts) for name in names],
    }


def _encode(model: SentenceTransformer, texts: Sequence[str]) -> None:
    with limit_length(model, COST_LENGTH):
        vectors_of(model, texts, batch_size=COST_BATCH, progress=lambda _: None)


def peak_memory(model: str, texts: Sequence[str]) -> int | None:
    """Bytes that a new process needs to load a model and to encode, besides Python; None if it
    fails.
    """
    command = [sys.executable, "-m", "isotrope.compression.cost", model]
    done = subprocess.run(
        command, input=json.dumps(list(texts)), capture_output=True, text=True, check=False
    )
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdecimal() else None


def growth(work: Callable[[], object]) -> int:
    """How many bytes this process holds at most while it works, beyond those that it holds before."""
    process = psutil.Process()
    before = most = process.memory_info().rss
    with ThreadPoolExecutor(1) as worker:
        working = worker.submit(work)
        while wait([working], _PAUSE).not_done:
            most = max(most, process.memory_info().rss)
        working.result()
    return int(max(most, process.memory_info().rss) - before)


if __name__ == "__main__":
    torch.set_num_threads(1)
    name, given = sys.argv[1], json.load(sys.stdin)
    # what the libraries load at their first use is not the model's
    _encode(load(_WARM_UP, device="cpu", frozen=True), given)
    freed_memory.give_back()
    sys.stdout.write(str(growth(lambda: _encode(load(name, device="cpu", frozen=True), given))))
