"""What two models cost: time, weights and memory, on this machine, in one run, with one thread of the processor."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from sentence_transformers import SentenceTransformer

from isotrope.encoder.embed import cut, vectors_of

COST_LENGTH = 128  # tokens of a text
COST_BATCH = 32
ROUNDS = 5  # each model in each; one more comes first and is not counted


def costs(
    teacher: SentenceTransformer, student: SentenceTransformer, names: Sequence[str], texts: Sequence[str]
) -> dict[str, Any]:
    """Speed, weights and memory of two models.

    Args:
        teacher: any model; it is moved to the processor.
        student: another one; the same.
        names: of the two, as `isotrope.load` takes them: each is loaded anew, to see how much memory it needs.
        texts: to encode.

    Returns:
        "texts"; "speed": texts a second of each; "faster": the median, smallest and largest ratio of a round;
        "weights": bytes of each; "memory": bytes of each, None where that could not be measured.
    """
    found = speed([teacher.to("cpu"), student.to("cpu")], texts)
    weights = [sum(t.numel() * t.element_size() for t in model.state_dict().values()) for model in (teacher, student)]
    return {"texts": len(texts), **found, "weights": weights, "memory": [peak_memory(name, texts) for name in names]}


def speed(models: Sequence[SentenceTransformer], texts: Sequence[str]) -> dict[str, Any]:
    """Two models take turns, so that whatever else the machine does meets both; the time is that of the processor."""
    seconds: list[list[float]] = [[], []]
    with one_thread():
        for number in range(ROUNDS + 1):
            for place in (0, 1) if number % 2 else (1, 0):
                with cut(models[place], COST_LENGTH):
                    began = time.process_time()
                    vectors_of(models[place], texts, batch_size=COST_BATCH, progress=lambda _: None)
                    spent = time.process_time() - began
                if number:
                    seconds[place].append(max(spent, 1e-6))
    ratios = [slow / fast for slow, fast in zip(*seconds, strict=True)]
    return {
        "speed": [len(texts) / statistics.median(each) for each in seconds],
        "faster": {"median": statistics.median(ratios), "low": min(ratios), "high": max(ratios)},
    }


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread for a while."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(count)


def peak_memory(model: str, texts: Sequence[str]) -> int | None:
    """Bytes that a new process needs to load a model and to encode, beyond what Python and its libraries need.

    None where a process cannot tell, as on Windows, or fails.
    """
    command = [sys.executable, "-m", "isotrope.compression.memory", model]
    done = subprocess.run(command, input=json.dumps(list(texts)), capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdecimal() else None
