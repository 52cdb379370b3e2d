"""Evaluation beside the original's: seven STS sets on one encoder, and transfer on CR at 64, 384
and 768 dimensions.

    python benchmarks/evaluation.py --data DATA [--repetitions 3] [--fits 4] [--output FILE.json]

What is timed, and how, stands in `sts.py` and `transfer.py`.
"""

import argparse
from pathlib import Path

import torch

import sts
import transfer
from isotrope.evaluation.transfer import CLASSIFIER_SETTINGS
from isotrope.training.processes import environment
from timing import show

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--fits", type=int, default=4)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    seven = sts.measure("isotrope/tiny", "mean", given.data, given.repetitions)
    torch.set_num_threads(1)
    transfer.warm_up(given.data)
    cr = [
        transfer.measure(given.data, size, given.fits, CLASSIFIER_SETTINGS["test"])
        for size in (64, 384, 768)
    ]
    show({"sts": seven, "transfer": cr, "environment": environment()}, given.output)
