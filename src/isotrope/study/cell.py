"""One cell of a study: train, measure, keep the numbers, forget the rest. Runs in a process of its own."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from filelock import FileLock
from rich.console import Console

from isotrope.encoder import load, save
from isotrope.evaluation.models import RememberingEncoder
from isotrope.evaluation.significance import resample
from isotrope.evaluation.spectrum import unit
from isotrope.evaluation.sts import score, similarities
from isotrope.evaluation.suite import run as evaluate
from isotrope.report.space import pair_cosines
from isotrope.run.cosines import write_cosines
from isotrope.run.environment import environment
from isotrope.run.pairs import dev_names, dev_pairs, judges
from isotrope.run.train import train
from isotrope.store.atomic import write_json
from isotrope.store.disk import writing
from isotrope.store.records import read_record
from isotrope.study.columns import sts_scores, suite_scores
from isotrope.study.plan import Cell
from isotrope.study.post_step import with_post_step
from isotrope.types import Encoder

KEPT = ("metrics.jsonl", "after.npz")  # of a run's folder
BATCH, BINS = 256, 40  # sentences whose cosines are counted (DCLR Fig. 1), and bins from -1 to 1


def run_cell(cell: Cell, console: Console | None = None) -> dict[str, Any]:
    """Do whatever of the cell is left to do -> its record, ``result.json``.

    A cell that was killed goes on from its last checkpoint; a finished one is read. Two processes never work on one.

    Raises:
        UserError: as `isotrope.train`, `isotrope.load` and the suites do.
        Stopped: Ctrl-C; the same cell can be run again.
    """
    with writing(cell.folder), FileLock(cell.folder / ".lock"):
        run = cell.folder / "run"
        if not cell.finished:
            cell.result.unlink(missing_ok=True)
            began = time.monotonic()
            record = _trained(cell, run, console) if cell.train else _measured(cell)
            if draws := _draws(cell.folder / "after.npz"):
                np.savez(cell.folder / "draws.npz", **draws)
            record.setdefault("seconds", {})["cell"] = round(time.monotonic() - began, 1)  # since it was last started
            write_json(cell.result, _head(cell) | record)
        shutil.rmtree(run, ignore_errors=True)
    return read_record(cell.result)


def _head(cell: Cell) -> dict[str, Any]:
    """What was run, without a path of this machine."""
    return {
        "label": cell.label,
        "key": cell.key,
        "preset": Path(cell.preset).stem,
        "seed": cell.seed,
        "settings": {**cell.settings, "then": cell.then} if cell.then else cell.settings,
        "environment": environment(),
    }


def _trained(cell: Cell, run: Path, console: Console | None) -> dict[str, Any]:
    finished = train(
        list(cell.corpus),
        output=run,
        preset=cell.preset,
        backbone=cell.backbone,
        teachers=cell.teachers,
        dev=cell.dev,
        test="none" if cell.test else None,  # judged below: each run would judge the same backbone once more
        data=cell.data,
        seed=cell.seed,
        sentences=cell.sentences,
        overrides=cell.overrides,
        resume=True,
        console=console,
    ).result
    for name in KEPT:
        if (run / name).is_file():
            shutil.copyfile(run / name, cell.folder / name)
    if cell.keep_model and not cell.model.is_dir():
        (run / "model").replace(cell.model)
    kept = cell.model if cell.keep_model else run / "model"
    model = _encoder(cell, load(kept))
    scores = sts_scores(finished.get("after", {})) or _judged(cell, model)
    scores |= _suites(cell, model)
    selection = dict(finished["selection"])
    if selection["best_score"] is not None:
        scores["dev"] = 100 * selection["best_score"]
    seconds = round(selection.pop("seconds"), 1)
    return {
        "scores": scores | {"minutes": seconds / 60},
        "data": {"corpus": finished["corpus"], "tests": _gold(cell.folder / "after.npz")},
        "selection": selection,
        "in_batch": _in_batch(model, (run / "sample.txt").read_text(encoding="utf-8").splitlines()),
        "seconds": {"training": seconds},
    }


def _measured(cell: Cell) -> dict[str, Any]:
    """A backbone as it is."""
    recipe = cell.settings["encoder"]
    backbone = load(cell.backbone, recipe.get("pooling"), normalize=recipe.get("normalize"))
    model = _encoder(cell, backbone)
    scores = _judged(cell, model) | _suites(cell, model)
    if cell.keep_model:
        save(backbone, cell.model)
    return {"scores": scores, "data": {"tests": _gold(cell.folder / "after.npz")}}


def _encoder(cell: Cell, model: Encoder) -> Encoder:
    """What is judged; the suites ask for the same sentences."""
    return RememberingEncoder(with_post_step(model, cell.then, cell.corpus, cell.sentences, cell.seed))


def _judged(cell: Cell, model: Encoder) -> dict[str, float]:
    """Points on the judging pairs, whose cosines are kept."""
    # judged as `isotrope.train` does, where half of the dev pairs judge
    dev = dev_pairs(dev_names(cell.dev or ()), cell.data) if cell.test is None else {}
    sets, _ = judges(cell.test, dev, cell.data)
    if not sets:
        return {}
    cosines = similarities(model, sets)
    write_cosines(cell.folder / "after.npz", sets, cosines)
    return sts_scores(score(sets, cosines))


def _in_batch(model: Encoder, sentences: list[str]) -> list[int]:
    """Histogram of the cosines of unrelated sentences."""
    found = pair_cosines(unit(np.asarray(model.encode(sentences[:BATCH]))))
    return [int(count) for count in np.histogram(np.clip(found, -1, 1), BINS, (-1, 1))[0]]


def _suites(cell: Cell, encoder: Encoder) -> dict[str, float]:
    """The further suites' numbers."""
    found: dict[str, float] = {}
    for suite in cell.suites:
        found |= suite_scores(suite, evaluate(encoder, suite, cell.data))
    return found


def gold_and_cosines(path: Path) -> dict[str, tuple[Any, Any]]:
    """Task -> gold scores and cosines (N,), (N,), from a run's ``after.npz``; {} where nothing judged it."""
    if not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as file:
        parts: dict[str, dict[str, tuple[Any, Any]]] = {}
        for key in file.files:
            if not key.endswith("/gold"):
                task, part = key.split("/")
                parts.setdefault(task, {})[part] = (file[f"{key}/gold"], file[key])
    return {
        task: (np.concatenate([gold for gold, _ in found.values()]), np.concatenate([c for _, c in found.values()]))
        for task, found in parts.items()
    }


def _draws(path: Path) -> dict[str, Any]:
    """Spearman on every resample of each task's pairs, (R,): with them any two cells can be compared at once."""
    measured = gold_and_cosines(path)
    return resample(measured) if measured else {}


def _gold(path: Path) -> dict[str, str]:
    """A checksum of each test set's gold scores."""
    return {task: xxhash.xxh3_64_hexdigest(gold.tobytes()) for task, (gold, _) in gold_and_cosines(path).items()}
