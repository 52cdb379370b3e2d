"""Teachers of rankings: which documents a pseudo-query should find, by a fused list that finds more
than the model itself.

BM25 teaches together with the model and with further ones, because a fusion teaches more than one
of them (RankCSE, Sec. 4.4). The list is judged, and not its parts: a model that finds no more than
the student can still make a better list.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sentence_transformers.util import load_file_path
from transformers import AutoConfig

from isotrope.encoder import load
from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.embed import Vectors
from isotrope.encoder.fast.dtype import AUTO
from isotrope.encoder.length import limit_length
from isotrope.encoder.locate import locate
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.models import RememberingEncoder, code_checksum
from isotrope.evaluation.search import (
    RankedLists,
    Search,
    by_cosine,
    ranked_lists,
    search_with,
)
from isotrope.improvement.scores import mean_score
from isotrope.improvement.steps import QUERY_MAP, FittedStep, FittingSet
from isotrope.improvement.tasks import JUDGED_LENGTH, TaskSet
from isotrope.post.ranking_map import ranking_map
from isotrope.types import Vector

BM25 = "BM25"
BM25_SHARE = 0.5  # of the rankings that are taught


def read_teacher(
    model: str, queries: Sequence[str], documents: Sequence[str], say: Callable[[str], None]
) -> Embeddings:
    """Let another model read all texts once, in bf16 where that is faster and as good. Its vectors
    are kept in the cache, and ``say`` is told how many were there.
    """
    encoder = load(model, dtype=AUTO)
    with limit_length(encoder, JUDGED_LENGTH):
        key = f"{model_checksum(encoder)}-{code_checksum()}"
        reader = RememberingEncoder(encoder, cache_key=key, say=say)
        if not reader.has_roles:
            return Embeddings.of(reader, [*queries, *documents])
        query_embeddings = Embeddings(queries, reader.encode(list(queries), "query"))
        vectors = reader.encode(list(documents), "document")
    return Embeddings(documents, vectors, query_embeddings, reader.similarity_fn_name)


def fused_list(
    readers: Sequence[Embeddings],
    words: Search | None,
    queries: Sequence[str],
    documents: Sequence[str],
) -> tuple[list[Search], list[float]]:
    """The searches whose scores are added to the list that is taught, and their weights.

    Models have equal shares; ``words`` is BM25's search, and None leaves it out.
    """
    searches = [
        by_cosine(reader.encode_query(queries), reader.encode_document(documents))
        for reader in readers
    ]
    share_of_models = 1.0 if words is None else 1 - BM25_SHARE
    weights = [share_of_models / len(searches)] * len(searches)
    if words is not None:
        searches.append(words)
        weights.append(BM25_SHARE)
    return searches, weights


def list_score(readers: Sequence[Embeddings], with_bm25: bool, task_set: TaskSet) -> float:
    """How much the fused list finds: the mean over the tasks."""
    task_scores = dict[str, Vector]()
    for task in task_set.searches:
        words = task_set.searches_by_words[task.name] if with_bm25 else None
        searches = fused_list(readers, words, task.queries, task.corpus)
        task_scores[task.name] = task.score_search(search_with(*searches))
    return mean_score(task_scores)


def is_cross_encoder(model: str) -> bool:
    """Whether a model gives one score to two texts, and no vectors."""
    where = locate(model)
    try:
        config = AutoConfig.from_pretrained(where, trust_remote_code=False)
    except (OSError, ValueError):  # such as a table of word vectors, which has no configuration
        return False
    modules = load_file_path(where, "modules.json")
    if modules is not None and "Pooling" in Path(modules).read_text(encoding="utf-8"):
        return False
    return any(name.endswith("ForSequenceClassification") for name in config.architectures or ())


@dataclass(frozen=True)
class Rankings:
    """What students of rankings learn."""

    queries: list[str]  # (Q,) pseudo-queries
    query_vectors: Vectors  # (Q, D) of the model
    document_vectors: Vectors  # (M, D)
    lists: RankedLists  # which documents each query should find

    @classmethod
    def of(
        cls,
        embeddings: Embeddings,
        fitting_set: FittingSet,
        taught_by: Sequence[str],
        teachers: Mapping[str, Embeddings],
    ) -> "Rankings":
        """The rankings of the model itself and of these teachers. Models have equal shares."""
        queries = fitting_set.pseudo_queries
        documents = fitting_set.documents
        readers = [embeddings, *(teachers[name] for name in taught_by if name != BM25)]
        words = fitting_set.index.search(queries.texts) if BM25 in taught_by else None
        searches, weights = fused_list(readers, words, queries.texts, documents)
        return cls(
            queries.texts,
            embeddings.encode_query(queries.texts),
            embeddings.encode_document(documents),
            ranked_lists(searches, weights, queries.own, len(documents)),
        )

    def fit_map(self, step: str, seed: int) -> FittedStep:
        """One of `isotrope.improvement.steps.MAPS`, trained on the vectors and their rankings."""
        queries_only = step == QUERY_MAP
        matrix = ranking_map(
            self.query_vectors,
            self.document_vectors,
            *self.lists,
            both=not queries_only,
            seed=seed,
        )
        return FittedStep(np.zeros(len(matrix)), np.eye(len(matrix)) + matrix, queries_only)
