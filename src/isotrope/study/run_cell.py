"""One cell of a study: train, measure, keep the numbers, delete the rest. Runs in its own process."""

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
import xxhash
from rich.console import Console
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import batch_to_device

from isotrope.encoder import load, save
from isotrope.encoder.length import limit_length
from isotrope.encoder.prompts import used_prompt
from isotrope.encoder.word_vectors import WordVectors
from isotrope.evaluation.document_tasks import make_document_tasks
from isotrope.evaluation.geometry import diversity, unit
from isotrope.evaluation.models import RememberingEncoder
from isotrope.evaluation.significance import resample
from isotrope.evaluation.sts import score, similarities
from isotrope.evaluation.suite import run as evaluate
from isotrope.post.flow import Flow
from isotrope.post.names import post_step
from isotrope.preset.preset import EncoderSettings, build_objective, read_preset
from isotrope.report.space import pair_cosines
from isotrope.store.files import Record, mark_of, remove
from isotrope.store.job import in_turn
from isotrope.study.cell import COSINES, DRAWS, METRICS, RESAMPLES, Cell
from isotrope.study.columns import FALL, SELF_MADE, sts_scores, suite_scores
from isotrope.text.sample import Sample
from isotrope.training.folder import KIND, RunFolder, write_cosines
from isotrope.training.pairs import dev_names, dev_pairs, judges
from isotrope.training.prepare import untrained
from isotrope.training.processes import environment
from isotrope.training.train import train
from isotrope.types import Encoder
from isotrope.views.mlp import MLP

BATCH, BINS = 256, 40  # sentences whose cosines are counted (DCLR Fig. 1), and bins from -1 to 1
BATCHES = 8  # whose positives are measured
# sentences that fit a linear step: a covariance of 768 channels changes little after that
SENTENCES_FOR_A_STEP = 20_000


def run_cell(cell: Cell, console: Console | None = None) -> Record:
    """Do what is left of a cell -> its record, ``result.json``.

    A killed cell goes on from its last checkpoint. A finished cell is only read. Two processes
    never run one cell.
    """
    job = cell.job
    with in_turn(cell.folder), job.held():
        job.begin()
        cell.numbers.mkdir(exist_ok=True)
        run = RunFolder(cell.folder / "run")
        if (record := cell.record()) is None:
            began = time.monotonic()
            found = _trained(cell, run, console) if cell.row.train else _measured(cell)
            judged = cell.cosines()
            # with the draws, any two cells can be compared
            np.savez(cell.numbers / DRAWS, **resample(judged, RESAMPLES))  # type: ignore[arg-type]
            found["seconds"]["cell"] = round(time.monotonic() - began, 1)  # since the last start
            found["data"]["tests"] = {
                task: xxhash.xxh3_64_hexdigest(g.tobytes()) for task, (g, _) in judged.items()
            }
            settings = {**cell.settings, "then": cell.row.then} if cell.row.then else cell.settings
            what = {"preset": Path(cell.row.preset).stem, "seed": cell.seed, "settings": settings}
            record = cell.finish(what | {"environment": environment()} | found)
        if mark_of(run.path) == KIND:
            remove(run.path)
    return record


def _trained(cell: Cell, run: RunFolder, console: Console | None) -> Record:
    trained_before = run.finished  # by a process that was stopped since; what it held is not known
    finished = train(
        cell.corpus,
        output=run.path,
        preset=cell.row.preset,
        model=cell.backbone,
        teachers=cell.teachers,
        dev=cell.run.dev,
        data=cell.data,
        seed=cell.seed,
        max_texts=cell.sentences,
        overrides=cell.overrides,
        console=console,
        # judged below; else every run would judge the same backbone again
        labels="none" if cell.run.labels else None,
    ).record
    memory = {} if trained_before or sys.platform == "win32" else {"memory": _peak_memory()}
    shutil.copyfile(run.metrics_file, cell.numbers / METRICS)
    trained = load(run.model)
    if cell.keep_model:
        save(trained, cell.model)
    model = with_post_step(trained, cell)
    scores = _judged(cell, model) | _suites(cell, model, trained) | _positives(cell, str(run.model))
    if len(uniform := [one["uniformity"] for one in cell.metrics() if "uniformity" in one]) > 1:
        scores[FALL] = uniform[-1] - uniform[0]
    selection = dict(finished["selection"])
    if selection["best_score"] is not None:
        scores["dev"] = 100 * selection["best_score"]
    seconds = round(selection.pop("seconds"), 1)
    unrelated = pair_cosines(unit(np.asarray(model.encode(run.sample[:BATCH]))))
    return {
        "scores": scores | {"minutes": seconds / 60} | memory,
        "data": {"corpus": finished["corpus"]},
        "selection": selection,
        "projection": _projection(cell, model),
        "in_batch": np.histogram(np.clip(unrelated, -1, 1), BINS, (-1, 1))[0].tolist(),
        "seconds": {"training": seconds},
    }


def _peak_memory() -> float:
    """The most memory that this process has held so far, in MB of 10⁶ bytes."""
    import resource  # not on Windows

    return (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        * (1 if sys.platform == "darwin" else 1024)
        / 1e6
    )


def _measured(cell: Cell) -> Record:
    """The record of a backbone that is not trained."""
    how = EncoderSettings(**{**cell.settings["encoder"], "backbone": cell.backbone})
    # another pooling would replace the trained head
    if cell.settings["train"].get("keep_head") and cell.needs:
        how = how.model_copy(update={"pooling": None})
    backbone = WordVectors(cell.backbone) if cell.row.vectors else untrained(how)
    model = with_post_step(backbone, cell)
    scores = _judged(cell, model) | _suites(cell, model, backbone) | _positives(cell, cell.backbone)
    if cell.keep_model:
        save(backbone, cell.model)
    return {"scores": scores, "projection": _projection(cell, model), "data": {}, "seconds": {}}


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
    return RememberingEncoder(step.behind(encoder).fit(_sample(cell).texts(limit)))


def _sample(cell: Cell) -> Sample:
    """The sentences that this seed of the row trains on."""
    return Sample(cell.corpus.texts(), cell.sentences, cell.seed)


def _positives(cell: Cell, model: str) -> dict[str, float]:
    """Two diversities: of the views as the encoder gives them, and as they enter the head, so after
    whitening.

    The views are those of the preset in training, on `BATCHES` batches of the row's sentences. Word
    vectors have none, and those of a row with a step behind its model are those of the row without.
    """
    recipe = read_preset(cell.row.preset, cell.overrides)
    if not cell.run.positives or cell.row.then or Path(model).is_file():
        return {}
    recipe = recipe.model_copy(update={"scores": {}, "terms": {"infonce": {}}, "teachers": {}})
    student = untrained(recipe.encoder.model_copy(update={"backbone": model, "student": None}))
    torch.manual_seed(cell.seed)
    objective = build_objective(recipe, student, cell.seed).train()
    size = recipe.train.batch_size
    texts = _sample(cell).texts(BATCHES * size)
    found: dict[str, list[float]] = {"feature diversity": [], "diversity": []}
    for number in range(len(texts) // size):
        objective.step = number  # the shuffles of that step
        batch = texts[number * size : (number + 1) * size]
        features = student.preprocess(
            batch, prompt=used_prompt(student) or None, max_length=recipe.train.max_length
        )
        with torch.no_grad():
            views = objective.encode([batch_to_device(features, student.device)], None)
            if len(views.stack) > 1:  # one view lies apart from no other
                found["feature diversity"].append(diversity(list(views.stack)))
            for step in objective.views:
                views = views if isinstance(step, MLP) else step(views)
        found["diversity"].append(diversity(list(views.stack)))
    return {name: sum(each) / len(each) for name, each in found.items() if each}


def _projection(cell: Cell, encoder: Encoder) -> list[list[float]]:
    """Unit vectors of the row's sentences (n, 2), not centred, in the two directions in which they
    are longest.
    """
    if not cell.run.positives:
        return []
    rows = unit(np.asarray(encoder.encode(_sample(cell).texts(BATCH))))
    plane = rows @ np.linalg.svd(rows, full_matrices=False)[2][:2].T
    return np.round(plane * np.where(plane.sum(axis=0) < 0, -1, 1), 3).tolist()  # type: ignore[no-any-return]


def _judged(cell: Cell, model: Encoder) -> dict[str, float]:
    """Points on the judging pairs. The cosines are kept in the cell's folder."""
    # judged as `isotrope.train` does, where half of the dev pairs judge
    dev = dev_pairs(dev_names(cell.run.dev or ()), cell.data) if cell.run.labels is None else {}
    sets, _ = judges(cell.run.labels, dev, cell.data)
    if not sets:
        return {}
    cosines = similarities(model, sets)
    write_cosines(cell.numbers / COSINES, sets, cosines)
    return sts_scores(score(sets, cosines))


def _suites(
    cell: Cell, encoder: Encoder, model: SentenceTransformer | WordVectors
) -> dict[str, float]:
    """The further suites' numbers of ``encoder``, whose vectors ``model`` makes, and that of the
    self-made tasks.
    """
    found = _self_made(cell, encoder)
    for suite, asked in cell.run.suites.items():
        with reading(model, asked.max_length, asked.precision):
            judged, whole = encoder, (asked.max_length, asked.precision) == (None, "fp32")
            if isinstance(encoder, RememberingEncoder) and not whole:
                judged = encoder.fresh()  # it knows other vectors of the same texts
            found |= suite_scores(
                suite, evaluate(judged, suite, cell.data, asked.tasks or None, asked.setting)
            )
    return found


def _self_made(cell: Cell, encoder: Encoder) -> dict[str, float]:
    """The mean over the tasks that the study's documents allow, in points."""
    if cell.documents is None:
        return {}
    tasks = make_document_tasks([*cell.documents.documents().each()]).tasks
    return {SELF_MADE: 100 * float(np.mean([task.score(encoder).mean() for task in tasks]))}


@contextmanager
def reading(
    model: SentenceTransformer | WordVectors, length: int | None, precision: str
) -> Iterator[None]:
    """Let a model read at most ``length`` tokens of a text (None: as many as before), in fp32 or
    bf16.
    """
    if isinstance(model, WordVectors):  # they have no tokens and one precision
        yield
        return
    with (
        limit_length(model, length),
        torch.autocast(model.device.type, torch.bfloat16, enabled=precision == "bf16"),
    ):
        yield
