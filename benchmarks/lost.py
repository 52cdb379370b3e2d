"""A training in two processes loses one: how long does the other live on, and what does it say?
Writes JSON.

    python benchmarks/lost.py FOLDER TEXT [--rounds 3] [--output docs/results/performance/lost.json]

isotrope/tiny is trained on TEXT, by our own launcher, by torchrun, and by torchrun with weights
spread over the two processes. The second process is killed (SIGKILL) when the run has its first
checkpoint. The seconds are those until all processes have ended.
"""

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

from isotrope.training.processes import environment
from timing import show

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
from helpers.small_runs import lose

TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
TRAIN = [
    "-m",
    "isotrope",
    "train",
    "--model",
    "isotrope/tiny",
    "--sentences",
    "4000",
    "--dev",
    "none",
]
TRAIN += ["--labels", "none", "--set", "train.batch_size=16", "--set", "train.save_steps=5"]
WAYS = {
    "torchrun": [*TORCHRUN, *TRAIN],
    "torchrun, train.fsdp": [*TORCHRUN, *TRAIN, "--set", "train.fsdp=true"],
}


def measure(folder: Path, text: str, rounds: int) -> dict[str, Any]:
    """The seconds of each round, and what was said in the last."""
    found: dict[str, Any] = {name: {"seconds": []} for name in WAYS}
    for _ in range(rounds):
        for name, command in WAYS.items():
            _, errors, seconds = lose(
                1, folder / "run", *command, text, "--output", str(folder / "run")
            )
            found[name]["seconds"].append(round(seconds, 2))
            found[name]["said"] = [
                line for line in errors.splitlines() if line.startswith("isotrope: ")
            ]
            shutil.rmtree(folder / "run")
    return found | {"environment": environment()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("text")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    show(measure(asked.folder, asked.text, asked.rounds), asked.output)
