"""The seven STS sets, ours against the original protocol: the same encoder, the same pairs, turn by
turn.

    python benchmarks/sts.py --data DATA [--model isotrope/tiny] [--repetitions 3] [--output FILE.json]

The original (SentEval as SimCSE runs it) encodes both sides of every pair of every subset, sorted
by length, in batches of 128 padded to the longest, repeated sentences again, and the train splits
of STS-B and SICK-R too. Ours encodes every distinct sentence of the dev and test splits once. Both
give the same correlations, which is checked.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

from isotrope import evaluate, load
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.evaluation.sets.senteval import SPLITS, STS_TASKS, load_sts
from isotrope.evaluation.suite import main_scores
from timing import clock, ratio, show

BATCH = 128


def original(encoder: SentenceTransformer, data: Path) -> dict[str, float]:
    """Spearman of each task by the original's way: all splits are encoded, pair by pair."""
    found = {}
    for task in STS_TASKS:
        splits = ("train", "dev", "test")
        sets = {
            name: _cosines(encoder, pairs) for name, pairs in load_sts(data, task, splits).items()
        }
        scored = [sets["test"]] if task in SPLITS else list(sets.values())
        gold, cosines = (np.concatenate([one[side] for one in scored]) for side in (0, 1))
        found[task] = float(spearmanr(cosines, gold).statistic)
    return found


def _cosines(encoder: SentenceTransformer, pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Gold scores and cosines (N,), (N,), in the original's order."""
    rows = sorted(
        zip(pairs.first, pairs.second, pairs.gold, strict=True),
        key=lambda r: (len(r[0]), len(r[1]), r[2]),
    )
    parts = []
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        a, b = (
            torch.from_numpy(encoder.encode([row[side] for row in batch], batch_size=BATCH))
            for side in (0, 1)
        )
        parts.append(torch.cosine_similarity(a, b).numpy())
    return np.array([row[2] for row in rows]), np.concatenate(parts)


def measure(model: str, pooling: str, data: Path, repetitions: int) -> dict[str, object]:
    ours, plain = load(model, pooling), load(model, pooling, packed=False)
    scores: dict[str, dict[str, float]] = {}

    systems: dict[str, Callable[[], dict[str, float]]] = {
        "original": lambda: original(plain, data),
        "ours": lambda: main_scores("sts", evaluate(ours, "sts", data)),
    }
    times: dict[str, list[float]] = {name: [] for name in systems}
    for encoder in (plain, ours):  # the first use of anything is slower
        encoder.encode(["warm up"] * BATCH)
    for repetition in range(repetitions):
        for name in list(systems)[:: 1 if repetition % 2 else -1]:
            began = clock()
            scores[name] = systems[name]()
            times[name].append(clock() - began)
            print(f"{name}: {times[name][-1]:.1f} s", flush=True)
    difference = max(abs(scores["ours"][task] - scores["original"][task]) for task in STS_TASKS)
    if difference > 2e-3:  # the last bit of a cosine decides ties: see docs/log.md
        raise SystemExit(f"the two do not agree: {scores}")
    return {
        "model": model,
        "pooling": pooling,
        "times_as_fast": ratio(times, "original", "ours"),
        "seconds": times,
        "largest_difference_of_a_correlation": difference,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="isotrope/tiny")
    parser.add_argument("--pooling", default="mean")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    show(measure(given.model, given.pooling, given.data, given.repetitions), given.output)
