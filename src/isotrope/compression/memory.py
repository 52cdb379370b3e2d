"""``python -m isotrope.compression.memory MODEL`` reads texts (JSON) and prints how many bytes their encoding needs.

A process of its own: what another model has used before would be used again.
"""

import json
import sys
import threading
from collections.abc import Callable, Sequence

import psutil
import torch

from isotrope.compression.cost import COST_BATCH, COST_LENGTH
from isotrope.encoder import load
from isotrope.encoder.embed import cut, freed_memory, vectors_of

WARM_UP = "isotrope/tiny"
_PAUSE = 0.002  # seconds between two looks


def growth(work: Callable[[], object]) -> int:
    """How many bytes this process holds at most while it works, beyond those that it holds before."""
    process, done = psutil.Process(), threading.Event()
    before = process.memory_info().rss
    seen = [before]

    def watch() -> None:
        while not done.wait(_PAUSE):
            seen.append(max(seen.pop(), process.memory_info().rss))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return int(max(seen.pop(), process.memory_info().rss) - before)


def encode_alone(model: str, texts: Sequence[str]) -> None:
    """Load a model, and encode with one thread."""
    torch.set_num_threads(1)
    encoder = load(model, device="cpu", frozen=True)
    with cut(encoder, COST_LENGTH):
        vectors_of(encoder, texts, batch_size=COST_BATCH, progress=lambda _: None)


if __name__ == "__main__":
    name, given = sys.argv[1], json.load(sys.stdin)
    encode_alone(WARM_UP, given)  # what the libraries load at their first use is not the model's
    freed_memory.give_back()
    sys.stdout.write(str(growth(lambda: encode_alone(name, given))))
