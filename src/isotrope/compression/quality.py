"""How many of its teacher's points a student has, and whether its training helped."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from isotrope.compression.cost import COST_LENGTH
from isotrope.encoder.embed import cut, search_vectors, vectors_of
from isotrope.evaluation.document_tasks import tasks_of_texts
from isotrope.evaluation.embed import Known
from isotrope.evaluation.retrieval import OwnTask
from isotrope.evaluation.self_made import SelfMadeTask, compare_on_documents
from isotrope.evaluation.sets.domain import Domain
from isotrope.evaluation.sets.similarity import similarity_pairs
from isotrope.evaluation.significance import compare
from isotrope.evaluation.sts import Cosines, Sets, main_pairs, similarities
from isotrope.report.examples import searched
from isotrope.store.records import Record

QUERIES, PARTS, PAIRS = "labelled queries", "parts of texts", "graded pairs"
SIMILARITY = "English, 330 pairs"


def compare_quality(
    teacher: SentenceTransformer,
    start: SentenceTransformer,
    student: SentenceTransformer,
    held_out: Sequence[str],
    sets: Sets,
    known: tuple[Cosines, Cosines],
    asked: Domain | None = None,
) -> tuple[dict[str, Any], Record | None]:
    """The student against its teacher and against itself before training, by a paired bootstrap.

    Tasks are made of the ``held_out`` texts if there are enough, and ``sets`` are graded pairs beside the 330 that ship
    with isotrope, whose cosines by the start and by the student are ``known``. Labelled queries, if any are ``asked``,
    come first.

    Returns:
        Kind of task -> {"teacher", "start"} -> `isotrope.evaluation.significance.Comparison` as a dictionary, whose
        "after" is the student; and what `isotrope.report.examples.searched` says of searches by teacher and student.
    """
    models, found, shown = (teacher, start, student), dict[str, Any](), None
    if asked is not None:
        large, first, small = ({asked.name: OwnTask(asked).score(model)} for model in models)
        found[QUERIES] = {"teacher": asdict(compare(large, small)), "start": asdict(compare(first, small))}
    if tasks := tasks_of_texts(held_out):
        old, begun, new = (_known(model, tasks) for model in models)
        of_texts = [compare_on_documents(before, new, tasks) for before in (old, begun)]
        found[PARTS] = dict(zip(("teacher", "start"), map(asdict, of_texts), strict=True))
        domain = max(tasks, key=lambda task: task.size).domain
        shown = searched(domain, *(search_vectors(one, domain.queries, domain.corpus) for one in (old, new)))
    own: Sets = {SIMILARITY: {"test": similarity_pairs()}}
    of_sets = [similarities(teacher, sets) if sets else {}, *known]
    cosines = [{**similarities(model, own), **more} for model, more in zip(models, of_sets, strict=True)]
    *others, last = (main_pairs({**own, **sets}, each) for each in cosines)
    found[PAIRS] = dict(zip(("teacher", "start"), (asdict(compare(each, last)) for each in others), strict=True))
    return found, shown


def kept_share(quality: dict[str, Any]) -> float:
    """The student's points over its teacher's, each the mean over all tasks."""
    tasks = [task for kind in quality.values() for task in kind["teacher"]["per_task"].values()]
    whole = float(np.mean([task["before"] for task in tasks]))
    return float(np.mean([task["after"] for task in tasks])) / whole if whole > 0 else 0.0


def _known(model: SentenceTransformer, tasks: Sequence[SelfMadeTask]) -> Known:
    texts = list(dict.fromkeys(text for task in tasks for text in task.texts))
    with cut(model, COST_LENGTH):
        return Known(texts, vectors_of(model, texts, batch_size=32))
