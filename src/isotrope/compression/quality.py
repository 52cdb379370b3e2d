"""What a student keeps of its teacher: both, and the student before training, on the same tasks and
pairs.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

from sentence_transformers import SentenceTransformer

from isotrope.compression.cost import COST_LENGTH
from isotrope.compression.result import PAIRS, PARTS, QUERIES, Distances
from isotrope.encoder.embed import search_vectors
from isotrope.evaluation.document_tasks import compare_on_documents, make_document_tasks
from isotrope.evaluation.embed import Embeddings, embed_texts
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.evaluation.sets.similarity import similarity_pairs
from isotrope.evaluation.significance import Comparison, compare
from isotrope.evaluation.similarity import row_similarities, similarity_of
from isotrope.evaluation.sts import SimilaritySets, main_pairs, pair_similarities
from isotrope.text.corpus import Document
from isotrope.types import Vector

SIMILARITY = "English, 330 pairs"
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class ByModel(Generic[T]):
    """One thing of each of the three models."""

    teacher: T
    start: T  # the student before training
    student: T

    def map(self, function: Callable[[T], U]) -> "ByModel[U]":
        """The same of each."""
        return ByModel(function(self.teacher), function(self.start), function(self.student))

    def distances(self, compared: Callable[[T, T], Comparison]) -> Distances:
        """How far the student is from the two others."""
        return Distances(compared(self.teacher, self.student), compared(self.start, self.student))


Models = ByModel[SentenceTransformer]


@dataclass(frozen=True, slots=True)
class Judges:
    """What a student is judged by."""

    held_out: Sequence[Document]  # tasks are made of them, if there are enough
    graded: SimilaritySets  # pairs, beside the 330 that ship with isotrope
    labelled: RetrievalSet | None = None
    queries_only: bool = False  # the teacher reads documents, and the second texts of pairs


def compare_quality(models: Models, judges: Judges) -> dict[str, Distances]:
    """A student against its teacher and against itself before training: kind of task -> distances.

    Labelled queries come first.
    """
    quality = {}
    document_reader = models.teacher if judges.queries_only else None

    labelled = judges.labelled
    if labelled is not None:
        embeddings = _embed(models, document_reader, labelled.queries, labelled.corpus, None)
        scores = embeddings.map(lambda vectors: {labelled.name: labelled.score(vectors)})
        quality[QUERIES] = scores.distances(compare)

    tasks = make_document_tasks(judges.held_out).tasks
    if tasks:
        queries = chain(*(task.queries for task in tasks))
        corpus = chain(*(task.corpus for task in tasks))
        embeddings = _embed(models, document_reader, queries, corpus, COST_LENGTH)
        quality[PARTS] = embeddings.distances(
            lambda before, after: compare_on_documents(before, after, tasks)
        )

    all_sets: SimilaritySets = {SIMILARITY: {"test": similarity_pairs()}, **judges.graded}
    pairs = models.map(lambda model: _judged_pairs(model, document_reader, all_sets))
    quality[PAIRS] = pairs.distances(compare)
    return quality


def _embed(
    models: Models,
    document_reader: SentenceTransformer | None,
    queries: Iterable[str],
    documents: Iterable[str],
    length: int | None,
) -> ByModel[Embeddings]:
    """The vectors that each model gives; ``document_reader``, if there is one, reads documents for
    all.
    """
    distinct_queries = list(dict.fromkeys(queries))
    distinct_documents = list(dict.fromkeys(documents))

    def embed(model: SentenceTransformer) -> Embeddings:
        if document_reader is None:
            return embed_texts(model, distinct_queries, distinct_documents, length)
        return embed_texts(
            document_reader, distinct_queries, distinct_documents, length, query_model=model
        )

    return models.map(embed)


def _judged_pairs(
    model: SentenceTransformer, document_reader: SentenceTransformer | None, sets: SimilaritySets
) -> dict[str, tuple[Vector, Vector]]:
    """Gold scores and similarities (N,) of each task, as `compare` takes them."""
    if document_reader is None:
        return main_pairs(sets, pair_similarities(model, sets))

    similarity = similarity_of(document_reader)

    def similarities_of(pairs: GradedPairs) -> Vector:
        # The first text is read as a query.
        both = embed_texts(document_reader, pairs.first, pairs.second, None, model)
        vectors = search_vectors(both, pairs.first, pairs.second)
        return row_similarities(*vectors, similarity)

    by_task = {
        task: {part: similarities_of(pairs) for part, pairs in parts.items()}
        for task, parts in sets.items()
    }
    return main_pairs(sets, by_task)
