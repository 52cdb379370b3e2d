"""Students of one teacher, side by side: model2vec's and tokenlearn's, sentence-transformers' MSE
distillation, ours.

    # the text, the same for all, and the teacher's folder
    python -m benchmarks.students.students text WORK --data DATA
    python -m benchmarks.students.students_peers WORK                  # in a venv of its own
    # docs/results/compress/students.json
    python -m benchmarks.students.students measure WORK --data DATA

The teacher is all-MiniLM-L6-v2. The text is drawn from what isotrope/small learnt last from:
sentences, passages, spans and titles of Wikipedia. Static students have 256 dimensions. Students of
layers begin as the same two layers, see each text once, with 32 bits and without dropout. Rates are
chosen by short runs: a student of layers has to come nearest to the teacher's vectors of held-out
texts, a static one to the order of all their cosines. STS, search and clustering are measured as in
benchmarks/models/small.py. Minutes are the processor's; all trainings find the teacher's vectors in the
cache. What the record has already is not measured again. Run it with OMP_NUM_THREADS=1.
"""

import argparse
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from scipy.stats import spearmanr
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MSELoss

import isotrope
from benchmarks.models.small import TEACHER, on_disk, searched, similar
from benchmarks.models.small_text import THIRD, mixed
from benchmarks.paths import ROOT
from isotrope.compression.compress import TIMED
from isotrope.compression.cost import measure_costs
from isotrope.contract.context import BuildContext
from isotrope.encoder import save
from isotrope.encoder.embed import vectors_of
from isotrope.encoder.length import limit_length
from isotrope.encoder.locate import locate
from isotrope.encoder.student import student_of
from isotrope.evaluation.sets.public import load_retrieval_set
from isotrope.store.files import write_json
from isotrope.teachers.model import Cached
from isotrope.text import read_text
from isotrope.training.processes import environment
from isotrope.types import Batch

RESULT = ROOT / "docs" / "results" / "compress" / "students.json"
TEXTS, HELD_OUT, SHORT = 9_984, 1_000, 2_560  # whole batches
LAYERS, LENGTH, BATCH, WARMUP = "layers:2", 128, 32, 0.05
PASS, START, STEPS = "the teacher's pass", "static, before training", 20


def write_texts(work: Path, data: Path) -> None:
    """The text, those held out, and the teacher as a folder that others read."""
    kept = read_text(mixed(data / "wiki", seed=2, times=THIRD)).texts()  # each text once
    texts = kept.texts(np.arange(TEXTS + HELD_OUT))
    some = {"train": texts[:TEXTS], "held_out": texts[TEXTS:]}
    (work / "texts.json").write_text(json.dumps(some), encoding="utf-8")
    shutil.copytree(locate(TEACHER), work / "teacher", dirs_exist_ok=True)


def labels(texts: list[str]) -> torch.Tensor:
    """The teacher's vectors (N, D), from the cache where every training finds them."""
    teacher = Cached(TEACHER, max_length=LENGTH).build(
        BuildContext(corpus=read_text(texts).texts())
    )
    return teacher(Batch(torch.arange(len(texts)), torch.Generator()))


def mse(texts: list[str], rate: float, folder: Path, packed: bool = True, steps: int = -1) -> None:
    """sentence-transformers' recipe: its trainer and loss, and the teacher's vectors as labels.

    The student is ``packed`` as isotrope loads it: padding is skipped, and the vectors are the
    same.
    """
    save(student_of(isotrope.load(TEACHER), LAYERS), folder / "start")
    student = isotrope.load(folder / "start", dropout=0.0, max_length=LENGTH, packed=packed)
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder / "work"),
        num_train_epochs=1,
        max_steps=steps,
        per_device_train_batch_size=BATCH,
        learning_rate=rate,
        warmup_steps=WARMUP,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    data = Dataset.from_dict({"sentence": texts, "label": labels(texts).tolist()})
    SentenceTransformerTrainer(student, arguments, data, loss=MSELoss(student)).train()
    save(student, folder / "model")


def ours(texts: list[str], rate: float, folder: Path) -> None:
    """The recipe of isotrope/small, with 32 bits."""
    keys = (
        f"encoder.student={LAYERS!r}",
        "train.epochs=1",
        "train.precision=fp32",
        "teachers.teacher.precision=fp32",
    )
    train(texts, rate, folder, ROOT / "benchmarks" / "small.toml", *keys)


def static(texts: list[str], rate: float, folder: Path) -> None:
    """The recipe of `compress`, whose preset has three epochs."""
    train(texts, rate, folder, "distil", "encoder.student='static'")


def train(texts: list[str], rate: float, folder: Path, preset: str | Path, *keys: str) -> None:
    """What `compress` does, without what it measures."""
    isotrope.train(
        texts,
        preset=preset,
        model=TEACHER,
        labels="none",
        dev="none",
        output=folder,
        restart=True,
        overrides=(*keys, f"train.learning_rate={rate}"),
    )


def nearness(model: SentenceTransformer, texts: list[str]) -> dict[str, float]:
    """How near a student is to its teacher: "squared" distance of their vectors, and "spearman" of
    all cosines.
    """
    found = []
    for one in (isotrope.load(TEACHER), model):
        with limit_length(one, LENGTH):
            rows = np.asarray(vectors_of(one, texts), dtype=np.float64)
        found.append(rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-12))
    teacher, student = found
    above = np.triu_indices(len(texts), 1)
    near = {"spearman": float(spearmanr(*((rows @ rows.T)[above] for rows in found))[0])}
    if teacher.shape == student.shape:
        near["squared"] = float(((teacher - student) ** 2).sum(axis=1).mean())
    return near


@dataclass(frozen=True)
class Recipe:
    """How a student is trained, and how its rate is chosen."""

    train: Callable[[list[str], float, Path], None]
    rates: tuple[float, ...]
    by: str  # of `nearness`
    also: tuple[float, ...] = ()  # rates that are measured beside the best

    def best(self, tried: dict[str, dict[str, float]]) -> float:
        """The rate whose student comes nearest to the teacher."""
        sign = 1 if self.by == "squared" else -1
        return min(self.rates, key=lambda rate: sign * tried[str(rate)][self.by])


RECIPES = {
    "static": Recipe(static, (1e-3, 3e-3, 1e-2, 3e-2), "spearman", also=(1e-3, 1e-2)),
    "layers, MSE": Recipe(mse, (1e-4, 5e-4, 1e-3), "squared"),
    "layers, L2": Recipe(ours, (1e-4, 5e-4, 1e-3), "squared"),
}


class Measuring:
    """The record, which is written after each part."""

    def __init__(self, work: Path, data: Path) -> None:
        self.work, self.data = work, data
        texts = json.loads((work / "texts.json").read_text(encoding="utf-8"))
        self.texts, self.held_out = texts["train"], texts["held_out"]
        empty: dict[str, Any] = {"rates": {}, "minutes": {}, "models": {}}
        self.found = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.is_file() else empty

    def keep(self, key: str, name: str, make: Callable[[], Any]) -> Any:
        """A part of the record, made unless it is there."""
        if name not in self.found[key]:
            print(key, name, flush=True)
            self.found[key][name] = make()
            write_json(RESULT, self.found)
        return self.found[key][name]

    def minutes(self, name: str, make: Callable[[], object]) -> None:
        """What a part took of the processor."""

        def took() -> float:
            began = process_time()
            make()
            return (process_time() - began) / 60

        self.keep("minutes", name, took)

    def tried(self, name: str) -> dict[str, dict[str, float]]:
        """How near the students of short runs are, by their rates."""
        near = {}
        for rate in RECIPES[name].rates:
            folder = self.work / "short" / f"{name}, {rate}"
            RECIPES[name].train(self.texts[:SHORT], rate, folder)
            near[str(rate)] = nearness(isotrope.load(folder / "model"), self.held_out)
        return near

    def trained(self) -> list[str]:
        """Train all, and tell their names, which their folders have."""
        self.minutes(PASS, lambda: labels(self.texts))
        self.minutes(
            START, lambda: save(student_of(isotrope.load(TEACHER), "static"), self.work / START)
        )
        names = [START]
        for name, recipe in RECIPES.items():
            best = recipe.best(self.keep("rates", name, partial(self.tried, name)))
            for rate in dict.fromkeys((*recipe.also, best)):
                names.append(f"{name}, {rate}")
                self.minutes(
                    names[-1], partial(recipe.train, self.texts, rate, self.work / names[-1])
                )
        for told, packed in (("packed", True), ("padded", False)):
            make = partial(
                mse, self.texts, RECIPES["layers, MSE"].rates[0], self.work / told, packed, STEPS
            )
            self.minutes(f"{STEPS} steps, {told}", make)
        return names

    def measured(self, name: str) -> dict[str, Any]:
        """Scores, nearness, speed and size of a student."""
        folder = (
            self.work / name / "model"
            if (self.work / name / "model").is_dir()
            else self.work / name
        )
        texts = load_retrieval_set(self.data, "SciFact", "test").corpus[:TIMED]
        both = isotrope.load(TEACHER, frozen=True), isotrope.load(folder, frozen=True)
        found = {
            "faster": asdict(measure_costs(*both, [TEACHER, str(folder)], texts).faster),
            "on_disk": on_disk(str(folder)),
        }
        model = isotrope.load(folder).float()  # model2vec's file has 16 bits
        return (
            similar(model, self.data)
            | searched(model, self.data)
            | nearness(model, self.held_out)
            | found
        )


def measure(work: Path, data: Path) -> None:
    """Train, and measure all."""
    it = Measuring(work, data)
    peers = json.loads((work / "peers.json").read_text(encoding="utf-8"))
    it.found["minutes"] |= peers["minutes"]
    names = ["model2vec", "tokenlearn", *it.trained()]
    it.found["models"] = {
        name: it.keep("models", name, partial(it.measured, name)) for name in names
    }
    write_json(
        RESULT,
        it.found | {"texts": TEXTS, "versions": peers["versions"], "environment": environment()},
    )


def main() -> None:
    """Write the text, or measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["text", "measure"])
    parser.add_argument("work", type=Path, help="a folder for the models")
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    {"text": write_texts, "measure": measure}[given.what](given.work, given.data)


if __name__ == "__main__":
    main()
