"""The papers' methods on an encoder of their size, for some steps: that every path runs at that
width, how long a step takes, how much memory it needs, and what it does to STS.

    python -m benchmarks.papers.base_size FOLDER --data DATA [--steps 30]

FOLDER is a model with 12 layers of 768, such as all-mpnet-base-v2. That one was fine-tuned before,
so the scores say nothing about a raw BERT. Each method has its preset for bert-base, with batches
of 64, in bf16 where the processor has it; the model itself is its own teacher. STS-B is encoded in
the same precision. A cell is a process of its own, and a finished one is not run again.
"""

import argparse
import os
import resource
import tempfile
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from datasets import disable_progress_bars

from benchmarks.paths import RESULTS
from benchmarks.speed.step import BATCH, DROPOUT, Ours
from benchmarks.timing import lines
from isotrope import evaluate, load
from isotrope.encoder import save
from isotrope.encoder.fast.half import has_bf16
from isotrope.preset.preset import read_preset
from isotrope.store.files import read_record, write_json
from isotrope.training.processes import environment

TARGET = RESULTS / "base-size.json"
TEACHERS = {"dclr": "guide", "rankcse-listnet": "rank"}
METHODS = ("simcse", "whitenedcse", "dclr", "rankcse-listnet")
POOLINGS = ("cls", "mean")
TOKENS = 128  # of a text that is judged


def train(name: str, pooling: str, folder: Path, data: Path, steps: int) -> dict[str, Any]:
    """A method for some steps: its speed, its memory, and its scores."""
    torch.set_num_threads(1)
    disable_progress_bars()
    precision = "bf16" if has_bf16() else "fp32"
    overrides = [f"encoder.backbone={folder}", f"train.batch_size={BATCH}"]
    overrides += [f"train.precision={precision}", "train.epochs=1"]
    if name in TEACHERS:
        overrides.append(f'teachers.{TEACHERS[name]}.models=["{folder}"]')
    if name == "rankcse-listnet":
        overrides.append("teachers.rank.weights=[1]")
    preset = read_preset(f"{name}-bert-base", overrides)
    texts = lines(data / "wiki" / "wiki_train_00.txt.xz", BATCH * steps)

    with tempfile.TemporaryDirectory() as place:
        os.environ["ISOTROPE_CACHE"] = place
        ours = Ours(preset, lambda repetition: texts, Path(place))
        ours.model = load(folder, pooling, max_length=ours.length, dropout=DROPOUT, device="cpu")
        seconds = ours(0)
        finite = all(bool(each.isfinite().all()) for each in ours.model.parameters())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        trained = Path(place) / "trained"
        save(ours.model, trained)
        return {
            "seconds_a_step": round(seconds, 2),
            "peak_mb": round(peak / 1024),
            "finite": finite,
            **judge(trained, data),
        }


def judge(folder: str | Path, data: Path, pooling: str | None = None) -> dict[str, float]:
    """Spearman of STS-B, in points."""
    dtype = "bf16" if has_bf16() else "float32"
    model = load(folder, pooling, max_length=TOKENS, dtype=dtype)
    similarity = evaluate(model, "sts", data, tasks=["STSBenchmark"])["STSBenchmark"]
    return {"STSBenchmark": round(100 * similarity["spearman"]["test"], 2)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    record = read_record(TARGET) if TARGET.is_file() else {}
    record |= {"model": args.model.name, "steps": args.steps, "environment": environment()}
    cells = record.setdefault("cells", {})
    for pooling, name in product(POOLINGS, ("as it is", *METHODS)):
        cell = f"{name}, {pooling}"
        if cell in cells:
            continue
        with ProcessPoolExecutor(1, get_context("spawn")) as alone:
            if name == "as it is":
                cells[cell] = alone.submit(judge, args.model, args.data, pooling).result()
            else:
                given = (name, pooling, args.model, args.data, args.steps)
                cells[cell] = alone.submit(train, *given).result()
        write_json(TARGET, record)
        print(cell, cells[cell], flush=True)


if __name__ == "__main__":
    main()
