"""The memory of one SimCSE step, plain and with gradient caching; each case in a process of its
own; prints JSON.

    python -m benchmarks.speed.memory tiny wiki_train_00.txt.xz \\
        [--cases 128 1024 1024/128 4096/128] [--output FILE.json]

A case is a batch of N sentences of at most 32 tokens (two passes with dropout .1, loss, backward,
clipping, AdamW); N/m passes at most m sentences through the encoder at a time. The resident
memory's peak is read after a step of 8 sentences, when model, gradients and the optimizer's state
are there, and at the end; ``above`` is what the batch took.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from benchmarks.timing import clock, lines, show
from isotrope import load
from isotrope.preset.preset import build_objective, read_preset

os.environ["TOKENIZERS_PARALLELISM"] = "false"
WARM_UP, LENGTH = 8, 32
CASES = ["128", "1024", "1024/128", "4096/128"]


def peak() -> float:
    """The most memory that this process has held so far, in MB of 10⁶ bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def case(shape: str, path: Path, batch: int, part: int | None, steps: int) -> dict[str, Any]:
    """Peak memory and seconds a step, in this process."""
    settings = ["train.precision=fp32", *([f"train.mini_batch_size={part}"] if part else [])]
    torch.manual_seed(0)
    model = load(f"isotrope/{shape}", "cls", max_length=LENGTH, dropout=0.1, device="cpu").train()
    objective = build_objective(read_preset("simcse", settings), model)
    optimizer = torch.optim.AdamW(objective.parameters(), lr=3e-5)
    texts = lines(path, WARM_UP + steps * batch)

    def step(chosen: list[str]) -> float:
        began = clock()
        loss = objective([model.preprocess(chosen)])["infonce"]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(objective.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return clock() - began

    step(texts[:WARM_UP])
    before = peak()
    seconds = [step(texts[start : start + batch]) for start in range(WARM_UP, len(texts), batch)]
    return {
        "batch": batch,
        "mini_batch_size": part,
        "before": round(before),
        "peak": round(peak()),
        "above": round(peak() - before),
        "seconds_a_step": round(sum(seconds) / steps, 2),
    }


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Every case in a process of its own, since a peak never falls."""
    found = []
    for name in arguments.cases:
        command = [
            sys.executable,
            "-m",
            "benchmarks.speed.memory",
            arguments.shape,
            str(arguments.text),
            "--one",
            name,
        ]
        command += ["--steps", str(arguments.steps), "--threads", str(arguments.threads)]
        command += ["--cpu-time"] if arguments.cpu_time else []
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return {
        "shape": arguments.shape,
        "text": arguments.text.name,
        "length": LENGTH,
        "steps": arguments.steps,
        "threads": arguments.threads,
        "clock": clock.name,
        "unit": "MB of 10^6 bytes, resident",
        "cases": found,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shape", choices=["minilm", "tiny"])
    parser.add_argument("text", type=Path)
    parser.add_argument("--cases", nargs="+", default=CASES, metavar="BATCH[/MINI]")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--cpu-time", action="store_true", help="processor time of one thread, on a busy machine"
    )
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    clock.cpu_time = asked.cpu_time
    asked.threads = 1 if asked.cpu_time else asked.threads
    torch.set_num_threads(asked.threads)
    if asked.one:
        size, _, mini = asked.one.partition("/")
        print(
            json.dumps(
                case(asked.shape, asked.text, int(size), int(mini) if mini else None, asked.steps)
            )
        )
    else:
        show(measure(asked), asked.output)
