"""One cell of a study: train, measure, keep the numbers, delete the rest. Runs in its own
process.
"""

import shutil
import sys
import time

import numpy as np
import xxhash
from rich.console import Console

from isotrope.encoder import load, save
from isotrope.encoder.word_vectors import WordVectors
from isotrope.evaluation.models import RememberingEncoder
from isotrope.evaluation.significance import resample
from isotrope.post.flow import Flow
from isotrope.post.names import post_step
from isotrope.preset.preset import EncoderSettings
from isotrope.store.files import mark_of, remove
from isotrope.store.job import in_turn
from isotrope.study.cell import DRAWS, METRICS, RESAMPLES, Cell
from isotrope.study.columns import FALL
from isotrope.study.measure import all_scores, projection, sample_of, unrelated_cosines
from isotrope.study.record import CellResult, Measurement
from isotrope.training.folder import KIND, RunFolder
from isotrope.training.prepare import untrained
from isotrope.training.processes import environment
from isotrope.training.train import train
from isotrope.types import Encoder

# sentences that fit a linear step: a covariance of 768 channels changes little after that
SENTENCES_FOR_A_STEP = 20_000


def run_cell(cell: Cell, console: Console | None = None) -> CellResult:
    """Do what is left of a cell -> its record, ``result.json``.

    A killed cell goes on from its last checkpoint. A finished cell is only read. Two processes
    never run one cell.
    """
    job = cell.job
    with in_turn(cell.folder), job.held():
        job.begin()
        cell.numbers.mkdir(exist_ok=True)
        run = RunFolder(cell.folder / "run")
        result = cell.result() or _finish(cell, run, console)
        if mark_of(run.path) == KIND:
            remove(run.path)
    return result


def _finish(cell: Cell, run: RunFolder, console: Console | None) -> CellResult:
    """Measure the cell, and write its result with the numbers beside it."""
    began = time.monotonic()
    measured = _train(cell, run, console) if cell.row.train else _measure_backbone(cell)
    pairs = cell.cosines()
    # with the draws, any two cells can be compared
    np.savez(cell.numbers / DRAWS, **resample(pairs, RESAMPLES))  # type: ignore[arg-type]
    measured.data["tests"] = {}
    for task, (gold, _) in pairs.items():
        measured.data["tests"][task] = xxhash.xxh3_64_hexdigest(gold.tobytes())
    measured.seconds["cell"] = round(time.monotonic() - began, 1)  # since the last start

    settings = dict(cell.settings)
    if cell.row.then:
        settings["then"] = cell.row.then
    return cell.finish(measured, settings, environment())


def _train(cell: Cell, run: RunFolder, console: Console | None) -> Measurement:
    """Train the cell's model and measure it."""
    # A process that was stopped since trained it, so its largest memory is not known.
    trained_before = run.finished
    finished = train(
        cell.corpus,
        output=run.path,
        preset=cell.row.preset,
        model=cell.backbone,
        teachers=cell.teachers,
        dev=cell.run.dev,
        data=cell.data,
        seed=cell.seed,
        max_texts=cell.row.sentences,
        overrides=cell.overrides,
        console=console,
        # judged below; else every run would judge the same backbone again
        labels="none" if cell.run.labels else None,
    ).record
    memory = None if trained_before or sys.platform == "win32" else _peak_memory()
    shutil.copyfile(run.metrics_file, cell.numbers / METRICS)
    trained = load(run.model)
    if cell.keep_model:
        save(trained, cell.model)

    encoder = with_post_step(trained, cell)
    scores = all_scores(cell, encoder, trained, str(run.model))
    selection = dict(finished["selection"])
    seconds = round(selection.pop("seconds"), 1)
    if selection["best_score"] is not None:
        scores["dev"] = 100 * selection["best_score"]
    logged = [record["uniformity"] for record in cell.metrics() if "uniformity" in record]
    if len(logged) > 1:
        scores[FALL] = logged[-1] - logged[0]
    scores["minutes"] = seconds / 60
    if memory is not None:
        scores["memory"] = memory
    return Measurement(
        scores=scores,
        data={"corpus": finished["corpus"]},
        selection=selection,
        projection=projection(cell, encoder),
        in_batch=unrelated_cosines(encoder, run.sample),
        seconds={"training": seconds},
    )


def _peak_memory() -> float:
    """The most memory that this process has held so far, in MB of 10⁶ bytes."""
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024  # bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _measure_backbone(cell: Cell) -> Measurement:
    """Measure a model that is not trained."""
    settings = EncoderSettings(**{**cell.settings["encoder"], "backbone": cell.backbone})
    # another pooling would replace the trained head
    if cell.settings["train"].get("keep_head") and cell.needs:
        settings = settings.model_copy(update={"pooling": None})
    backbone = WordVectors(cell.backbone) if cell.row.vectors else untrained(settings)
    encoder = with_post_step(backbone, cell)
    scores = all_scores(cell, encoder, backbone, cell.backbone)
    if cell.keep_model:
        save(backbone, cell.model)
    return Measurement(scores=scores, projection=projection(cell, encoder))


def with_post_step(encoder: Encoder, cell: Cell) -> Encoder:
    """``encoder`` with the row's step after it, if it has one.

    The step is fitted on the sentences that this seed trains on, and then no sentence is encoded
    twice. With ``fit=target`` it is fitted on those of each evaluation.
    """
    if not cell.row.then:
        return RememberingEncoder(encoder)
    step = post_step(cell.row.then, "then")
    if "fit" in step.model_fields_set:
        return step.behind(encoder)
    # A flow is trained: the sentences are its steps, so it takes all of them.
    limit = None if isinstance(step, Flow) else SENTENCES_FOR_A_STEP
    texts = sample_of(cell).texts(limit)
    return RememberingEncoder(step.behind(encoder).fit(texts))
