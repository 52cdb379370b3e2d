"""How long training steps take with one thread, with a thread for each core, and with threads that
sleep as they wait.

    python -m benchmarks.speed.threads tiny TEXT [--beside 2] [--repetitions 5] [--steps 1] \\
        [--output FILE.json]

A step is SimCSE with 64 sentences of TEXT, cut at 32 tokens. Each system is a process of its own,
since OpenMP reads its settings when it starts. They take turns. ``--beside`` starts processes that
do nothing but keep a core busy, as other users of the machine would. ``load`` is the system's load
average before and after. Ratios are computed per round.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.timing import interleave, lines, ratio, show

SENTENCES = 64  # a step
SYSTEMS = {
    "one thread": {"OMP_NUM_THREADS": "1"},
    "a thread a core": {},
    "a thread a core, asleep while waiting": {"OMP_WAIT_POLICY": "passive"},
}
WORKER = """
import json, sys, time, torch
from isotrope import load
from isotrope.preset.preset import build_objective, read_preset
model = load("isotrope/" + sys.argv[1], "first_last", dropout=0.1, max_length=32, device="cpu")
objective = build_objective(read_preset("simcse-tiny"), model, 0)
texts = json.loads(sys.stdin.readline())
objective.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
print(torch.get_num_threads(), flush=True)
for _ in iter(sys.stdin.readline, ""):
    began = time.perf_counter()
    for _ in range(int(sys.argv[2])):
        features = model.preprocess(texts)
        optimizer.zero_grad()
        sum(objective([features], None).values()).backward()
        optimizer.step()
    print(time.perf_counter() - began, flush=True)
"""


def measure(shape: str, beside: int, repetitions: int, steps: int, text: Path) -> dict[str, Any]:
    """Seconds a step of each system, with ``beside`` busy processes."""
    texts = lines(text, SENTENCES)
    load = [round(os.getloadavg()[0], 1)]
    common = {key: value for key, value in os.environ.items() if not key.startswith("OMP_")}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", WORKER, shape, str(steps)]
    workers = {
        n: subprocess.Popen(command, env=common | own, **pipes) for n, own in SYSTEMS.items()
    }
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(beside)]
    try:
        for worker in workers.values():
            assert worker.stdin
            print(json.dumps(texts), file=worker.stdin, flush=True)
        threads = {
            name: int(worker.stdout.readline()) for name, worker in workers.items() if worker.stdout
        }

        def turn(worker: subprocess.Popen[str]) -> float:
            assert worker.stdin
            assert worker.stdout
            print(file=worker.stdin, flush=True)
            return float(worker.stdout.readline()) / steps

        systems = {name: lambda _, worker=worker: turn(worker) for name, worker in workers.items()}
        times = interleave(systems, repetitions)
    finally:
        for process in (*busy, *workers.values()):
            process.kill()
    one, *others = SYSTEMS
    return {
        "shape": shape,
        "text": text.name,
        "cores": os.cpu_count(),
        "beside": beside,
        "load": [*load, round(os.getloadavg()[0], 1)],
        "threads": threads,
        "seconds_a_step": {
            name: round(sorted(found)[len(found) // 2], 3) for name, found in times.items()
        },
        "over_one_thread": {name: ratio(times, name, one) for name in others},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shape", choices=["minilm", "tiny"])
    parser.add_argument("text", type=Path)
    parser.add_argument("--beside", type=int, default=0)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    show(
        measure(asked.shape, asked.beside, asked.repetitions, asked.steps, asked.text), asked.output
    )
