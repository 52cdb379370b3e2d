"""What a study measures of a cell's model: test pairs, suites, tasks made from documents, and how
far apart the views of a sentence lie.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import batch_to_device

from isotrope.encoder.length import limit_length
from isotrope.encoder.prompts import used_prompt
from isotrope.encoder.word_vectors import WordVectors
from isotrope.evaluation.document_tasks import make_document_tasks
from isotrope.evaluation.geometry import diversity, unit
from isotrope.evaluation.models import RememberingEncoder
from isotrope.evaluation.sts import pair_similarities, score
from isotrope.evaluation.suite import run as evaluate
from isotrope.objective.objective import Objective
from isotrope.preset.preset import build_objective, read_preset
from isotrope.store.files import Record
from isotrope.study.cell import COSINES, Cell
from isotrope.study.columns import (
    DIVERSITY,
    FEATURE_DIVERSITY,
    SELF_MADE,
    sts_scores,
    suite_scores,
)
from isotrope.study.record import Scores
from isotrope.text.sample import Sample
from isotrope.training.folder import write_cosines
from isotrope.training.pairs import dev_names, dev_pairs, judges
from isotrope.training.prepare import untrained
from isotrope.types import Encoder
from isotrope.views.mlp import MLP

SHOWN_SENTENCES = 256  # whose cosines are counted (DCLR Fig. 1), and which are projected
BINS = 40  # of the cosines, from -1 to 1
BATCHES = 8  # whose positives are measured


def sample_of(cell: Cell) -> Sample:
    """The sentences that this seed of the row trains on."""
    return Sample(cell.corpus.texts(), cell.row.sentences, cell.seed)


def all_scores(
    cell: Cell, encoder: Encoder, model: SentenceTransformer | WordVectors, folder: str
) -> Scores:
    """All scores of a cell, which is a row of the study with one seed: column of the table ->
    score.

    Args:
        cell: says which pairs, suites and documents the model is judged by.
        encoder: ``model``, then the row's post step, such as whitening.
        model: the trained model alone.
        folder: where that model lies, or its name.
    """
    return {
        **pair_scores(cell, encoder),
        **document_scores(cell, encoder),
        **all_suite_scores(cell, encoder, model),
        **positive_diversity(cell, folder),
    }


def pair_scores(cell: Cell, encoder: Encoder) -> Scores:
    """Points on the judging pairs. The cosines are kept in the cell's folder."""
    # judged as `isotrope.train` does, where half of the dev pairs judge
    dev = {}
    if cell.run.labels is None:
        dev = dev_pairs(dev_names(cell.run.dev or ()), cell.data)
    sets, _ = judges(cell.run.labels, dev, cell.data)
    if not sets:
        return {}
    cosines = pair_similarities(encoder, sets)
    write_cosines(cell.numbers / COSINES, sets, cosines)
    return sts_scores(score(sets, cosines))


def document_scores(cell: Cell, encoder: Encoder) -> Scores:
    """The mean over the tasks that the study's documents allow, in points."""
    if cell.documents is None:
        return {}
    documents = [*cell.documents.documents().each()]
    tasks = make_document_tasks(documents).tasks
    scores = [task.score(encoder).mean() for task in tasks]
    mean = float(np.mean(scores))
    return {SELF_MADE: 100 * mean}


def all_suite_scores(
    cell: Cell, encoder: Encoder, model: SentenceTransformer | WordVectors
) -> Scores:
    """The further suites' numbers of ``encoder``, whose vectors ``model`` makes."""
    scores = {}
    for suite, settings in cell.run.suites.items():
        reads_as_before = settings.max_length is None and settings.precision == "fp32"
        with reading(model, settings.max_length, settings.precision):
            judged = encoder
            if isinstance(encoder, RememberingEncoder) and not reads_as_before:
                judged = encoder.fresh()  # it knows other vectors of the same texts
            tasks = settings.tasks or None
            result = evaluate(judged, suite, cell.data, tasks, settings.setting)
            scores.update(suite_scores(suite, result))
    return scores


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


def positive_diversity(cell: Cell, model: str) -> Scores:
    """Two diversities: of the views as the encoder gives them, and as they enter the head, so after
    whitening.

    The views are those of the preset in training, on `BATCHES` batches of the row's sentences. Word
    vectors have none, and those of a row with a step behind its model are those of the row without.
    """
    if not cell.run.positives or cell.row.then or Path(model).is_file():
        return {}
    preset = read_preset(cell.row.preset, cell.overrides)
    changes: Record = {"scores": {}, "terms": {"infonce": {}}, "teachers": {}}
    preset = preset.model_copy(update=changes)
    encoder = preset.encoder.model_copy(update={"backbone": model, "student": None})
    student = untrained(encoder)
    torch.manual_seed(cell.seed)
    objective = build_objective(preset, student, cell.seed).train()

    size = preset.train.batch_size
    texts = sample_of(cell).texts(BATCHES * size)
    batches = defaultdict(list)
    for number in range(len(texts) // size):
        objective.step = number  # the shuffles of that step
        features = student.preprocess(
            texts[number * size : (number + 1) * size],
            prompt=used_prompt(student) or None,
            max_length=preset.train.max_length,
        )
        features = batch_to_device(features, student.device)
        for column, value in _diversities(objective, features).items():
            batches[column].append(value)
    return {column: sum(values) / len(values) for column, values in batches.items()}


@torch.no_grad()
def _diversities(objective: Objective, features: Record) -> Scores:
    """Both diversities of the views of one batch."""
    views = objective.encode([features], None)
    scores = {}
    if len(views.stack) > 1:  # one view lies apart from no other
        scores[FEATURE_DIVERSITY] = diversity([*views.stack])
    for step in objective.views:
        if not isinstance(step, MLP):
            views = step(views)
    scores[DIVERSITY] = diversity([*views.stack])
    return scores


def projection(cell: Cell, encoder: Encoder) -> list[list[float]]:
    """The cell's sentences in the plane (n, 2): their unit vectors, not centred, along their first
    two right singular vectors. A run without positives has no such figure: [].
    """
    if not cell.run.positives:
        return []
    sentences = sample_of(cell).texts(SHOWN_SENTENCES)
    vectors = unit(np.asarray(encoder.encode(sentences)))  # (n, D)
    _, _, directions = np.linalg.svd(vectors, full_matrices=False)
    plane = vectors @ directions[:2].T  # (n, 2)
    signs = np.where(plane.sum(axis=0) < 0, -1, 1)
    return np.round(plane * signs, 3).tolist()  # type: ignore[no-any-return]


def unrelated_cosines(encoder: Encoder, texts: list[str]) -> list[int]:
    """How many cosines of unrelated sentences fall into each of `BINS` bins from -1 to 1."""
    sentences = texts[:SHOWN_SENTENCES]
    vectors = unit(np.asarray(encoder.encode(sentences)))  # (n, D)
    cosines = vectors @ vectors.T
    of_pairs = cosines[np.triu_indices(len(vectors), 1)]
    counts, _ = np.histogram(np.clip(of_pairs, -1, 1), BINS, (-1, 1))
    return counts.tolist()  # type: ignore[no-any-return]
