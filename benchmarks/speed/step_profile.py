"""Where a training step of SimCSE spends its time; prints JSON.

    python -m benchmarks.speed.step_profile minilm wiki_train_00.txt.xz [--output FILE.json]

It is the step ``ours`` of `benchmarks.speed.step`, with torch's profiler. A part is the time of
torch's own operators in it, without those that they call. The profiler's clock is the wall's, so
other work beside it blurs the shares.
"""

import argparse
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from datasets import disable_progress_bars
from torch.profiler import ProfilerActivity, profile

from benchmarks.speed.step import BATCH, Ours
from benchmarks.timing import lines, show
from isotrope.preset.preset import read_preset
from isotrope.training.processes import environment

# Part -> what its operators have in their names; the first that fits counts.
PARTS = {
    "matrix products": ("mm", "linear"),
    "attention": ("scaled_dot_product", "softmax", "flash"),
    "GELU": ("gelu",),
    "layer norm": ("layer_norm",),
    "optimizer and clipping": ("adam", "_foreach", "norm", "clip", "optimizer", "addcdiv", "sqrt"),
    "random numbers": ("bernoulli", "random", "rand", "dropout"),
    "lookups and copies": ("embedding", "index", "copy", "cat", "gather", "scatter", "pad"),
    "sums and products of numbers": ("add", "mul", "div", "sub", "sum", "mean", "where", "masked"),
}


def part_of(operator: str) -> str:
    """The part of a step that an operator of torch belongs to."""
    for part, words in PARTS.items():
        if any(word in operator.lower() for word in words):
            return part
    return "other operators"


def measure(shape: str, path: Path, steps: int) -> dict[str, Any]:
    """The share of each part in the processor's time of the steps, and the largest operators."""
    overrides = [f"encoder.backbone=isotrope/{shape}", "views.mlp=false", "train.precision=fp32"]
    texts = lines(path, BATCH * (steps + 1))
    with tempfile.TemporaryDirectory() as place:
        os.environ["ISOTROPE_CACHE"] = place
        ours = Ours(read_preset("simcse", overrides), lambda repetition: texts, Path(place))
        ours(0)  # tokens and buffers
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            ours(0)

    seconds: Counter[str] = Counter()
    operators: Counter[str] = Counter()
    for event in profiler.key_averages():
        own = event.self_cpu_time_total / 1e6
        operators[event.key] += own
        seconds[part_of(event.key)] += own
    whole = sum(seconds.values())
    return {
        "shape": shape,
        "text": path.name,
        "steps": steps + 1,
        "seconds": round(whole, 2),
        "share": {part: round(took / whole, 4) for part, took in seconds.most_common()},
        "largest": {name: round(took / whole, 4) for name, took in operators.most_common(25)},
        "environment": environment(),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shape", choices=["minilm", "tiny"])
    parser.add_argument("text", type=Path)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    disable_progress_bars()
    torch.set_num_threads(1)
    show(measure(asked.shape, asked.text, asked.steps), asked.output)
