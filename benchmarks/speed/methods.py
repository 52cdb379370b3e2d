"""A step of each method beside SimCSE's, and the share of a run that dev selection takes; prints
JSON.

    python -m benchmarks.speed.methods tiny wiki_train_00.txt.xz --data DATA [--repetitions 5] \\
        [--steps 6] [--output FILE]
    python -m benchmarks.speed.methods minilm wiki_train_00.txt.xz --data DATA --repetitions 3 \\
        --steps 4
    python -m benchmarks.speed.methods tiny wiki_train_00.txt.xz --data DATA --methods zoo \\
        --output zoo-tiny.json

Each method is its preset, head included, through isotrope's trainer, at batch 64 and length 32 from
the same backbone, on the same sentences, turn by turn. ``--methods zoo``: the further methods of
docs/methods/others.md, or name presets; SimCSE runs with them. One that reads a template has its
own length. Teachers are two, isotrope/tiny and all-MiniLM-L6-v2 (DCLR's complementary model is the
first); their embeddings of the sentences are made before the clock runs. SGW has two channels a
group, as the paper has them. A ratio is a method's time over SimCSE's.

``selection``: seconds of one evaluation on STS-B's dev set (DATA holds ``senteval/``) beside those
of 125 steps.
"""

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from datasets import disable_progress_bars

from benchmarks.speed.step import BATCH, DROPOUT, LENGTH, Ours
from benchmarks.timing import clock, interleave, lines, ratio, show
from isotrope import load
from isotrope.evaluation.sets.senteval import load_sts
from isotrope.preset.preset import Preset, read_preset
from isotrope.training.evaluators import DevScore

METHODS = ["rankcse-listnet", "rankcse-listmle", "whitenedcse", "dclr", "all-three"]
ZOO = [
    "consert",
    "mixcse",
    "arccse",
    "esimcse",
    "mocose",
    "ct",
    "promptbert",
    "sncse",
    "pcl",
    "vascl",
    "sg-opt",
]
ZOO += ["tsdae", "diffcse", "infocse", "isbert", "paser"]
TEACHERS = {"rank": ["isotrope/tiny", "isotrope/minilm"], "guide": ["isotrope/tiny"]}
EVERY = 125  # steps between two evaluations, as WhitenedCSE and RankCSE have it


def prepare(method: str, backbone: str, width: int) -> Preset:
    """The method's preset at SimCSE's batch, length and schedule."""
    asked = [
        f"encoder.backbone={backbone}",
        f"train.batch_size={BATCH}",
        "train.epochs=1",
    ]
    preset = read_preset(method, asked)
    asked += [] if preset.encoder.pooling == "mask" else [f"train.max_length={LENGTH}"]
    more = [f"teachers.{name}.models={TEACHERS[name]}" for name in preset.teachers]
    more += [f"terms.diffcse.generator={backbone}"] if "diffcse" in preset.terms else []
    more += [f"views.sgw.groups={width // 2}"] if "sgw" in preset.views else []
    return read_preset(method, [*asked, *more])


def selection(name: str, data: Path, repetitions: int, step: float) -> dict[str, float]:
    """The median time of an evaluation, and its share of a run that evaluates every 125 steps."""
    model = load(name, "cls", dropout=DROPOUT, device="cpu")
    evaluate, times = DevScore({"stsb-dev": load_sts(data, "STSBenchmark", ["dev"])["dev"]}), []
    for _ in range(repetitions + 1):
        began = clock()
        evaluate(model)
        times.append(clock() - began)
    seconds = sorted(times[1:])[repetitions // 2]
    share = seconds / (seconds + EVERY * step)
    return {"evaluation": round(seconds, 3), "steps": EVERY, "share": round(share, 4)}


def measure(
    shape: str, path: Path, data: Path, repetitions: int, steps: int, methods: list[str]
) -> dict[str, Any]:
    """SimCSE and these methods on the first lines of the text."""
    name = f"isotrope/{shape}"
    size = BATCH * (steps + 1)
    texts = lines(path, size * (repetitions + 1))
    width = load(name, device="cpu").get_embedding_dimension() or 0
    with tempfile.TemporaryDirectory() as place:
        os.environ["ISOTROPE_CACHE"] = place
        given = (lambda repetition: texts[repetition * size : (repetition + 1) * size], Path(place))
        times = interleave(
            {m: Ours(prepare(m, name, width), *given) for m in ["simcse", *methods]}, repetitions
        )
    seconds = {method: sorted(found)[len(found) // 2] for method, found in times.items()}
    return {
        "shape": shape,
        "text": path.name,
        "batch": BATCH,
        "length": LENGTH,
        "threads": torch.get_num_threads(),
        "clock": clock.name,
        "seconds": {method: round(value, 4) for method, value in seconds.items()},
        "over_simcse": {method: ratio(times, method, "simcse") for method in methods},
        "selection": selection(name, data, min(3, repetitions), seconds["simcse"]),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shape", choices=["minilm", "tiny"])
    parser.add_argument("text", type=Path)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ISOTROPE_DATA", ".")))
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help="timed ones a repetition")
    parser.add_argument("--methods", nargs="+", default=METHODS, help="presets, or zoo")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--cpu-time", action="store_true", help="processor time of one thread, on a busy machine"
    )
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    disable_progress_bars()
    clock.cpu_time = asked.cpu_time
    torch.set_num_threads(1 if asked.cpu_time else asked.threads)
    methods = [
        name
        for given in asked.methods
        for name in (ZOO if given == "zoo" else [given])
        if name != "simcse"
    ]
    show(
        measure(asked.shape, asked.text, asked.data, asked.repetitions, asked.steps, methods),
        asked.output,
    )
