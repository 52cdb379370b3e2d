"""Run by test_training: kills small runs at random moments and resumes them, in forks of one process."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import load_file

import isotrope
import isotrope.encoder
import isotrope.training.train

torch.set_num_threads(1)
backbone, corpus, pairs, folder, kills = sys.argv[1:]
base = Path(folder)


def start(name: str) -> int:
    """Fork a run; a cache of its own, so that a kill may hit the cleaning too."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.environ["ISOTROPE_CACHE"] = str(base / "cache" / name)
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        isotrope.train(
            corpus, model=backbone, output=base / name, dev=pairs, seed=4,
            overrides=[
                "train.batch_size=16", "train.eval_steps=4", "train.save_steps=7", "train.epochs=2",
                "train.learning_rate=1e-3",
            ],
        )  # fmt: skip
        code = 0
    finally:
        os._exit(code)


def finish(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def checksum(run: Path) -> str:
    """Of the final encoder, and of head and step number in the last checkpoint, and of the selection."""
    digest = hashlib.sha256((run / "model" / "model.safetensors").read_bytes())
    last = max((run / "checkpoints").glob("checkpoint-*"), key=lambda path: int(path.name.rsplit("-", 1)[1]))
    for name, value in sorted(load_file(last / "objective.safetensors").items()):
        digest.update(name.encode() + value.numpy().tobytes())
    selection = json.loads((run / "result.json").read_text())["selection"]
    return digest.hexdigest()[:16] + f" {last.name} best {selection['best_step']} {selection['best_score']}"


def kill(child: int, after: float) -> bool:
    """Kill a run so many seconds from now -> whether it was still alive then."""
    began = time.monotonic()
    while time.monotonic() - began < after:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return finish(child) == -signal.SIGKILL


began = time.monotonic()
assert finish(start("undisturbed")) == 0, "the undisturbed run failed"
length = time.monotonic() - began
draw = random.Random(0)
sums: list[str] = []
for number in range(int(kills)):
    name = f"killed-{number}"
    while not kill(start(name), draw.uniform(0.02, 0.98) * length):
        length *= 0.8  # the machine has become faster, and the run had ended: once more
        shutil.rmtree(base / name)
        shutil.rmtree(base / "cache" / name)
    assert finish(start(name)) == 0, f"resume of {name} failed"
    sums.append(checksum(base / name))
    shutil.rmtree(base / name)
sys.stdout.write(json.dumps({"undisturbed": checksum(base / "undisturbed"), "resumed": sums}))
