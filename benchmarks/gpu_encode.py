"""Sentences a second on a GPU: isotrope beside sentence-transformers, in 32 and 16 bits, in one
run; prints JSON.

    python benchmarks/gpu_encode.py --data DATA --output gpu_encode.json
    python benchmarks/gpu_encode.py --data DATA --sentences 200 --layers 2 --width 64 --rounds 1     # a try on a CPU

A BERT of random weights, base-sized unless told otherwise, and isotrope/tiny and isotrope/small as
they ship, on distinct Wikipedia sentences. The systems take turns; a figure is the median of the
rounds. In 16 bits both compute under autocast to bf16. sentence-transformers sorts by length and
has batches of 256, near where it is fastest; tokens are made in the same time in both. ``cosine``
is the smallest between a vector and sentence-transformers' in 32 bits.
"""

import argparse
import lzma
import platform
import tempfile
import time
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from gpu import student
from isotrope import load
from isotrope.encoder.embed import vectors_of
from timing import interleave, show

BATCH = 256


def rates(
    name: str, texts: list[str], device: str, rounds: int, made: Path | None
) -> dict[str, Any]:
    """Sentences a second of every system on one model, and how near its vectors are."""
    ours = load(made or name, "cls" if made else None, device=device, frozen=True)
    plain = load(made or name, "cls" if made else None, device=device, frozen=True, packed=False)
    vectors: dict[str, Any] = {}

    def timed(which: str, model: SentenceTransformer, half: bool, _: int) -> float:
        began = time.perf_counter()
        with torch.autocast(device, torch.bfloat16, enabled=half):
            if model is ours:
                vectors[which] = vectors_of(model, texts)
            else:
                vectors[which] = plain.encode(texts, batch_size=BATCH, show_progress_bar=False)
        return time.perf_counter() - began

    systems = {
        f"{label}, {bits} bits": partial(timed, f"{label}, {bits} bits", model, bits == 16)
        for label, model in (("sentence-transformers", plain), ("isotrope", ours))
        for bits in (32, 16)
    }
    times = interleave(systems, rounds)
    reference, *_ = vectors.values()
    unit = {key: of / np.linalg.norm(of, axis=1, keepdims=True) for key, of in vectors.items()}
    base = reference / np.linalg.norm(reference, axis=1, keepdims=True)
    return {
        "model": "base" if made else name,
        "sentences_per_second": {
            key: round(len(texts) / float(np.median(of))) for key, of in times.items()
        },
        "cosine": {key: round(float((of * base).sum(axis=1).min()), 5) for key, of in unit.items()},
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure every model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds wiki/")
    parser.add_argument("--sentences", type=int, default=5_000)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768, help="a multiple of 64")
    parser.add_argument("--rounds", type=int, default=3)
    models = ["base", "isotrope/small", "isotrope/tiny"]
    parser.add_argument(
        "--models", nargs="+", default=models, help="base is the BERT of random weights"
    )
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args(arguments)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with lzma.open(asked.data / "wiki" / "wiki_train_00.txt.xz", "rt", encoding="utf-8") as file:
        texts = list(dict.fromkeys(line.strip() for line in islice(file, asked.sentences)))
    with tempfile.TemporaryDirectory() as place:
        made = Path(place)
        if "base" in asked.models:
            student(made, asked.layers, asked.width, device)
        found = [
            rates(name, texts, device, asked.rounds, made if name == "base" else None)
            for name in asked.models
        ]
    show(
        {
            "device": torch.cuda.get_device_name() if device == "cuda" else platform.machine(),
            "torch": torch.__version__,
            "sentences": len(texts),
            "rounds": asked.rounds,
            "results": found,
        },
        asked.output,
    )


if __name__ == "__main__":
    main()
