"""Transfer on CR in SentEval's `test` setting: all classifiers together against one after another;
JSON lines.

    python benchmarks/transfer.py [--data DIR] [--dimensions 64 384 768] [--fits 6] [--setting test] [--output FILE]

The original trains 410 classifiers one after another. Its procedure, in plain torch
(`tests/oracle/softmax.py`: one Linear, torch's optimizer, one minibatch at a time), is timed on
some of them, spread over folds and penalties, and the mean is taken as that of all 410. Between any
two of these fits a share of ours is timed (one outer fold's inner classifiers, all penalties), so
that whatever else the machine does meets both; then the whole task once by ours. Both on one
thread, in seconds of the process's own computing time; encoding is left out on both sides. Features
of 64 dimensions are means of words' random vectors; of more, a random nonlinear map of these.

``same`` says of how many of the timed fits ours has exactly the original's dev accuracy.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.evaluation.embed import Known
from isotrope.evaluation.sets.senteval import load_transfer
from isotrope.evaluation.transfer import (
    CLASSIFIER_SETTINGS,
    PENALTIES,
    ClassifierSetting,
    accuracies,
    folds_of,
    problem_of,
    split_dev,
    train_classifiers,
)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from oracle import softmax
from oracle.similarity import DATA, HashEncoder


def features(data: Path, dimensions: int) -> tuple[Tensor, Tensor]:
    """CR's features (N, D + 1) and classes (N,)."""
    part = load_transfer(data, "CR")["all"]
    x, y = problem_of(part, Known.of(HashEncoder(), part.first))
    if dimensions == x.shape[1] - 1:
        return x, y
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(x.shape[1], dimensions, generator=generator)
    return F.pad(torch.tanh(x @ weights / 8) * 0.1, (0, 1), value=1.0), y


def warm_up(data: Path) -> None:
    """The first use of torch's optimizers imports what is not part of the work."""
    train_classifiers(
        *features(data, 64),
        [split_dev(np.arange(200))],
        np.array([[1e-3]]),
        2,
        CLASSIFIER_SETTINGS["test"],
    )


def measure(
    data: Path, dimensions: int, fits: int, setting: ClassifierSetting
) -> dict[str, object]:
    x, y = features(data, dimensions)
    outer = folds_of(y, np.arange(len(y)), setting.folds)
    inner = [folds_of(y, rows.train, setting.folds) for rows in outer]
    single, share, same = [], [], 0
    for number in range(fits):
        fold, penalty = number % setting.folds, number % len(PENALTIES)
        rows = inner[fold][number % setting.folds]
        start = time.process_time()
        plain = softmax.Classifier(dimensions, 2, PENALTIES[penalty], setting)
        best = plain.fit(x[rows.train, :-1], y[rows.train], (x[rows.dev, :-1], y[rows.dev]))
        middle = time.process_time()
        ours = train_classifiers(
            x, y, inner[fold], np.tile(PENALTIES, (len(inner[fold]), 1)), 2, setting
        )
        share.append(time.process_time() - middle)
        single.append(middle - start)
        same += bool(ours.accuracy[number % setting.folds, penalty] == best)
    start = time.process_time()
    result = accuracies({"all": (x, y)}, 2, setting)
    seconds = time.process_time() - start
    classifiers = setting.folds * (setting.folds * len(PENALTIES) + 1)
    original = classifiers * float(np.mean(single))
    error = classifiers * float(np.std(single, ddof=1)) / fits**0.5
    return {
        "dimensions": dimensions,
        "classifiers": classifiers,
        "timed": fits,
        "same": same,
        "original_seconds_a_fit": round(float(np.mean(single)), 3),
        "original_seconds": round(original, 1),
        "standard_error": round(error, 1),
        "our_seconds": round(seconds, 2),
        "our_seconds_a_fold": round(float(np.median(share)), 3),
        "times_as_fast": round(original / seconds, 1),
        "accuracy": result["accuracy"],
        "dev_accuracy": result["dev_accuracy"],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[64, 384, 768])
    parser.add_argument("--fits", type=int, default=6)
    parser.add_argument("--setting", choices=CLASSIFIER_SETTINGS, default="test")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warm_up(given.data)
    rows = []
    for dimensions in given.dimensions:
        rows.append(measure(given.data, dimensions, given.fits, CLASSIFIER_SETTINGS[given.setting]))
        print(json.dumps(rows[-1]), flush=True)
    if given.output is not None:
        result = {"task": "CR", "setting": given.setting, "torch": torch.__version__, "rows": rows}
        given.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
