"""What several processes send in one SimCSE step, and what the loss of the full batch costs each; prints JSON.

    torchrun --nproc-per-node 2 benchmarks/processes.py tiny wiki_train_00.txt.xz [--batch 64] [--output FILE.json]

On CPUs, with gloo. Each process encodes ``batch`` sentences (two passes with dropout .1). It gathers the vectors of all
and computes the loss of the full batch. Plain: DDP adds up the gradients. FSDP: weights and gradients are spread.
Bytes are those of the tensors that the first process gives to each kind of operation in a step, as torch's profiler
tells them. The seconds are processor time.
"""

from __future__ import annotations

import argparse
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

from isotrope import load
from isotrope.objective.objective import Objective
from isotrope.preset.preset import build_objective, read_preset
from isotrope.run.sharded import Spread
from timing import clock, lines, show

FLOAT = 4  # bytes


def sent(found: Any) -> dict[str, int]:
    """Operation -> bytes of the tensors that it was given."""
    total: Counter[str] = Counter()
    for event in found.events():
        if event.name.startswith("gloo:"):
            total[event.name.removeprefix("gloo:")] += FLOAT * sum(prod(each) for each in event.input_shapes if each)
    return dict(sorted(total.items()))


def measure(shape: str, texts: list[str], batch: int, fsdp: bool) -> dict[str, Any]:
    """One step to warm up, one that is timed, one that is profiled."""
    model = load(f"isotrope/{shape}", "cls", max_length=32, dropout=0.1, device="cpu")
    objective = build_objective(read_preset("simcse"), model)
    if fsdp:
        Spread.of(objective)
    else:
        objective.model = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    took: list[float] = []
    compute = Objective.loss

    def timed(*arguments: Any) -> Any:
        began = clock()
        found = compute(objective, *arguments)
        took.append(clock() - began)
        return found

    vars(objective)["loss"] = timed

    def step(number: int) -> float:
        first = (dist.get_world_size() * number + dist.get_rank()) * batch
        began = clock()
        features = model.preprocess(texts[first : first + batch])
        objective.train()([features])["infonce"].backward()
        return clock() - began

    step(0)
    seconds = step(1)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as found:
        step(2)
    weights = sum(weight.numel() for weight in model.parameters())
    return {
        "weights": weights,
        "bytes": sent(found),
        "seconds_a_step": round(seconds, 3),
        "of_them_the_loss": round(took[1], 4),
    }


def main() -> None:
    """Measure both, and let the first process show them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape")
    parser.add_argument("text", type=Path)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    clock.cpu_time = True
    texts = lines(arguments.text, 3 * dist.get_world_size() * arguments.batch)
    known = {"shape": arguments.shape, "processes": dist.get_world_size(), "batch": arguments.batch}
    known |= {"clock": clock.name}
    both = {name: measure(arguments.shape, texts, arguments.batch, name == "fsdp") for name in ("plain", "fsdp")}
    if dist.get_rank() == 0:
        show(known | both, arguments.output)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
