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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass

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
FASTER = 1.05  # a smaller ratio of speeds is noise


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times one model is as fast as another one, in several rounds."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Costs:
    """What two models need on this machine: the teacher first, then the student."""

    texts: int  # that were encoded
    faster: Ratio  # student over teacher
    weights: list[int]  # bytes
    memory: list[int | None]  # bytes; None if they could not be measured

    @property
    def is_faster(self) -> bool:
        """Whether the student is faster by more than noise."""
        return self.faster.median > FASTER

    @property
    def weights_share(self) -> float:
        """The student's weights over its teacher's."""
        teacher, student = self.weights
        return student / teacher


def measure_costs(
    teacher: SentenceTransformer,
    student: SentenceTransformer,
    names: Sequence[str],
    texts: Sequence[str],
) -> Costs:
    """Speed, weights and memory of two models, which are moved to the processor.

    By the ``names`` of the two, `isotrope.load` loads each anew, to see how much memory it needs.
    """
    models = [teacher.to("cpu"), student.to("cpu")]
    slow, fast = _seconds_of_rounds(models, texts)
    ratios = [before / after for before, after in zip(slow, fast, strict=True)]
    return Costs(
        texts=len(texts),
        faster=Ratio(statistics.median(ratios), min(ratios), max(ratios)),
        weights=[weight_bytes(model) for model in models],
        memory=[peak_memory(name, texts) for name in names],
    )


def weight_bytes(model: SentenceTransformer) -> int:
    """Bytes of all weights of a model."""
    return sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())


def peak_memory(model: str, texts: Sequence[str]) -> int | None:
    """Bytes that a new process needs to load a model and to encode, besides Python; None if it
    fails.
    """
    command = [sys.executable, "-m", "isotrope.compression.cost", model]
    done = subprocess.run(
        command, input=json.dumps(list(texts)), capture_output=True, text=True, check=False
    )
    printed = done.stdout.strip()
    return int(printed) if done.returncode == 0 and printed.isdecimal() else None


def growth(work: Callable[[], object]) -> int:
    """How many bytes this process holds at most while it works, beyond those that it holds
    before.
    """
    process = psutil.Process()
    before = process.memory_info().rss
    peak = before
    with ThreadPoolExecutor(1) as worker:
        working = worker.submit(work)
        while wait([working], _PAUSE).not_done:
            peak = max(peak, process.memory_info().rss)
        working.result()
    return int(max(peak, process.memory_info().rss) - before)


def _seconds_of_rounds(
    models: Sequence[SentenceTransformer], texts: Sequence[str]
) -> list[list[float]]:
    """Processor seconds for the texts, by model and round; the first round warms up and is left
    out.
    """
    seconds: list[list[float]] = [[] for _ in models]
    with _one_thread():
        # The models take turns, so that other work on the machine meets all of them.
        for number in range(ROUNDS + 1):
            turns = list(enumerate(models))
            if number % 2 == 0:
                turns.reverse()
            for i, model in turns:
                began = time.process_time()
                _encode(model, texts)
                seconds[i].append(max(time.process_time() - began, 1e-6))
    return [rounds[1:] for rounds in seconds]  # the first round is slower


@contextmanager
def _one_thread() -> Iterator[None]:
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(count)


def _encode(model: SentenceTransformer, texts: Sequence[str]) -> None:
    with limit_length(model, COST_LENGTH):
        vectors_of(model, texts, batch_size=COST_BATCH, progress=lambda _: None)


def _main() -> None:
    torch.set_num_threads(1)
    name = sys.argv[1]
    texts = json.load(sys.stdin)
    # What the libraries load at their first use is not the model's.
    _encode(load(_WARM_UP, device="cpu", frozen=True), texts)
    freed_memory.give_back()
    needed = growth(lambda: _encode(load(name, device="cpu", frozen=True), texts))
    sys.stdout.write(str(needed))


if __name__ == "__main__":
    _main()
