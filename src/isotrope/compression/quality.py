"""What a student keeps of its teacher: both, and the student before training, on the same tasks and
pairs.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from isotrope.compression.cost import COST_LENGTH
from isotrope.compression.page import PAIRS, PARTS, QUERIES
from isotrope.encoder.embed import search_vectors
from isotrope.evaluation.document_tasks import compare_on_documents, make_document_tasks
from isotrope.evaluation.embed import Embeddings, embed_texts
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.evaluation.sets.similarity import similarity_pairs
from isotrope.evaluation.significance import Comparison, compare
from isotrope.evaluation.similarity import row_similarities, similarity_of
from isotrope.evaluation.sts import Cosines, SimilaritySets, main_pairs, similarities
from isotrope.report.examples import compare_searches
from isotrope.store.files import Record
from isotrope.text.corpus import Document

SIMILARITY = "English, 330 pairs"


def compare_quality(
    models: Sequence[SentenceTransformer],
    held_out: Sequence[Document],
    sets: SimilaritySets,
    asked: RetrievalSet | None = None,
    queries_only: bool = False,
) -> tuple[dict[str, Any], Record | None]:
    """A student against its teacher and against itself before training, by a paired bootstrap.

    ``models`` are the teacher, the student before training, and the student. Tasks are made of the
    ``held_out`` texts if there are enough. ``sets`` are graded pairs beside the 330 that ship with
    isotrope. Labelled queries, if any are ``asked``, come first. With ``queries_only``, the teacher
    reads all documents, and the second texts of pairs.

    Returns:
        Kind of task -> {"teacher", "start"} -> `isotrope.evaluation.significance.Comparison` as a
        dictionary, whose "after" is the student; and what `isotrope.report.examples.compare_searches` says
        of searches by teacher and student.
    """
    shown = None

    def compared(
        by: Callable[..., Comparison], scores: Sequence[Any], *more: Any
    ) -> dict[str, Any]:
        large, first, small = scores
        return {
            "teacher": asdict(by(large, small, *more)),
            "start": asdict(by(first, small, *more)),
        }

    def known(
        queries: Iterable[str], documents: Iterable[str], length: int | None = COST_LENGTH
    ) -> list[Embeddings]:
        """The vectors of each of the models."""
        first, second = (list(dict.fromkeys(texts)) for texts in (queries, documents))
        if queries_only:
            return [
                embed_texts(models[0], first, second, length, query_model=model) for model in models
            ]
        return [embed_texts(model, first, second, length) for model in models]

    found = {}
    if asked is not None:
        every = known(asked.queries, asked.corpus, None)
        found[QUERIES] = compared(compare, [{asked.name: asked.score(one)} for one in every])
    if tasks := make_document_tasks(held_out).tasks:
        every = known(
            chain(*(task.queries for task in tasks)), chain(*(task.corpus for task in tasks))
        )
        found[PARTS] = compared(compare_on_documents, every, tasks)
        domain = max(tasks, key=lambda task: task.size).as_retrieval_set()
        shown = compare_searches(
            domain, *(search_vectors(one, domain.queries, domain.corpus) for one in every[::2])
        )
    both: SimilaritySets = {SIMILARITY: {"test": similarity_pairs()}, **sets}
    cosines = [
        _one_asks(models[0], one, both) if queries_only else similarities(one, both)
        for one in models
    ]
    found[PAIRS] = compared(compare, [main_pairs(both, each) for each in cosines])
    return found, shown


def _one_asks(
    model: SentenceTransformer, asking: SentenceTransformer, sets: SimilaritySets
) -> Cosines:
    """The similarities of pairs whose first text another model reads, as a query."""
    return {
        task: {
            part: row_similarities(
                *search_vectors(
                    embed_texts(model, of.first, of.second, None, asking), of.first, of.second
                ),
                similarity_of(model),
            )
            for part, of in parts.items()
        }
        for task, parts in sets.items()
    }


def kept_share(quality: dict[str, Any]) -> float:
    """The student's points over its teacher's, each the mean over all tasks."""
    tasks = [task for kind in quality.values() for task in kind["teacher"]["per_task"].values()]
    whole = float(np.mean([task["before"] for task in tasks]))
    return float(np.mean([task["after"] for task in tasks])) / whole if whole > 0 else 0.0
