"""Teachers of rankings: which documents a pseudo-query should find, by a fused list that finds more
than the model itself.

BM25 teaches together with the model and with further ones, because a fusion teaches more than one
of them (RankCSE, Sec. 4.4). The list is judged, and not its parts: a model that finds no more than
the student can still make a better list. A cross-encoder reads a query and a document together, and
so sees more than vectors: it orders the best documents of a fused list anew (Nogueira and Cho, 2019,
https://arxiv.org/abs/1901.04085). A reading costs as much as encoding both texts, so it is asked
about as many pseudo-queries as there is time for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sentence_transformers import CrossEncoder
from sentence_transformers.util import load_file_path
from transformers import AutoConfig

from isotrope.encoder import load
from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.embed import Vectors
from isotrope.encoder.fast.dtype import AUTO
from isotrope.encoder.faults import loading, quiet
from isotrope.encoder.length import limit_length
from isotrope.encoder.locate import locate
from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import DocumentTask
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.models import RememberingEncoder, code_checksum
from isotrope.evaluation.search import (
    RankedLists,
    Search,
    by_cosine,
    encoder_search,
    ranked_lists,
    search_with,
)
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.improvement.clock import Clock
from isotrope.improvement.scores import mean_score
from isotrope.improvement.steps import QUERY_MAP, FittedStep, FittingSet
from isotrope.improvement.tasks import JUDGED_LENGTH, queries_and_corpus
from isotrope.post.ranking_map import ranking_map
from isotrope.text.permutation import RowIds, evenly
from isotrope.types import Vector

BM25 = "BM25"
BM25_SHARE = 0.5  # of the rankings that are taught
DEPTH = 50  # documents of a list that a cross-encoder reads
FEWEST_QUERIES = 200  # pseudo-queries that it must have time for: fewer teach too little
PAIR_LENGTH = 256  # tokens of a query and a document
TIMED_PAIRS = 32


@dataclass(frozen=True)
class TeachingModel:
    """Another model, whose vectors of all texts are known."""

    embeddings: Embeddings

    @classmethod
    def read(
        cls,
        model: str,
        queries: Sequence[str],
        documents: Sequence[str],
        say: Callable[[str], None],
    ) -> "TeachingModel":
        """Let a model read all texts once, in bf16 where that is faster and as good. Its vectors
        are kept in the cache, and ``say`` is told how many were there.
        """
        encoder = load(model, dtype=AUTO)
        with limit_length(encoder, JUDGED_LENGTH):
            key = f"{model_checksum(encoder)}-{code_checksum()}"
            reader = RememberingEncoder(encoder, cache_key=key, say=say)
            if not reader.has_roles:
                return cls(Embeddings.of(reader, [*queries, *documents]))
            asked = Embeddings(queries, reader.encode(list(queries), "query"))
            vectors = reader.encode(list(documents), "document")
        return cls(Embeddings(documents, vectors, asked, reader.similarity_fn_name))


@dataclass(frozen=True)
class FusedList:
    """The searches whose scores are added to the list that is taught."""

    searches: list[Search]
    weights: list[float]  # they sum to 1

    @classmethod
    def of(
        cls,
        readers: Sequence[Embeddings],
        words: Search | None,
        queries: Sequence[str],
        documents: Sequence[str],
    ) -> "FusedList":
        """The list of some models in equal shares, and of BM25 unless ``words`` is None."""
        searches = [
            by_cosine(reader.encode_query(queries), reader.encode_document(documents))
            for reader in readers
        ]
        share_of_models = 1.0 if words is None else 1 - BM25_SHARE
        weights = [share_of_models / len(searches)] * len(searches)
        if words is not None:
            searches.append(words)
            weights.append(BM25_SHARE)
        return cls(searches, weights)


def list_score(
    readers: Sequence[Embeddings],
    with_bm25: bool,
    tasks: Sequence[DocumentTask | RetrievalSet],
    searches_by_words: Mapping[str, Search],
) -> float:
    """How much the fused list finds: the mean over the tasks."""
    task_scores = dict[str, Vector]()
    for task in tasks:
        words = searches_by_words[task.name] if with_bm25 else None
        fused = FusedList.of(readers, words, *queries_and_corpus(task))
        search = search_with(fused.searches, fused.weights)
        task_scores[task.name] = task.score_search(search)
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


class Reranker:
    """A cross-encoder from a folder or the hub; only safetensors are read, and no code of the
    model. UserError if it gives several scores to a pair.
    """

    def __init__(self, model: str) -> None:
        where = locate(model)
        with loading(where, model), quiet():
            self.model = CrossEncoder(
                where, trust_remote_code=False, model_kwargs={"use_safetensors": True}
            )
        self.model.max_length = min(self.model.max_length or PAIR_LENGTH, PAIR_LENGTH)
        if self.model.config.num_labels != 1:
            raise UserError(
                f"{model} gives {self.model.config.num_labels} scores to two texts",
                "name a cross-encoder that gives one, as those for search do",
                "several-scores",
            )

    def speed(self, queries: Sequence[str], documents: Sequence[str]) -> float:
        """Lists that it orders in a second."""
        pairs = [
            (queries[place % len(queries)], documents[place % len(documents)])
            for place in range(TIMED_PAIRS)
        ]
        self._scores(pairs[:2])  # the first call is slower
        began = Clock.now()
        self._scores(pairs)
        return TIMED_PAIRS / DEPTH / max(Clock.now() - began, 1e-6)

    def rerank(
        self, queries: Sequence[str], documents: Sequence[str], lists: RankedLists
    ) -> RankedLists:
        """Order the best 50 of each list anew: scores from 0 to 1, and 0 for what comes after
        them.
        """
        best = np.argsort(-lists.scores, axis=1, kind="stable")[:, :DEPTH]  # (Q, 50) places
        rows = np.take_along_axis(lists.documents, best, axis=1)
        pairs = [
            (query, documents[row])
            for query, query_rows in zip(queries, rows.tolist(), strict=True)
            for row in query_rows
        ]
        pair_scores = self._scores(pairs).reshape(best.shape)
        low = pair_scores.min(axis=1, keepdims=True)
        high = pair_scores.max(axis=1, keepdims=True)

        scores = np.zeros_like(lists.scores)
        spread = np.where(high > low, high - low, 1)
        np.put_along_axis(scores, best, (pair_scores - low) / spread, axis=1)
        return RankedLists(lists.documents, scores)

    def score(
        self,
        embeddings: Embeddings,
        tasks: Sequence[DocumentTask | RetrievalSet],
        searches_by_words: Mapping[str, Search],
    ) -> float:
        """How well it orders what the model and BM25 find together: the mean over the tasks."""
        task_scores = dict[str, Vector]()
        for task in tasks:
            queries, corpus = queries_and_corpus(task)
            searches = [search_by_model(embeddings, task), searches_by_words[task.name]]
            no_document = np.full(len(queries), -1)
            weights = [1 - BM25_SHARE, BM25_SHARE]
            lists = ranked_lists(searches, weights, no_document, len(corpus), DEPTH)
            lists = self.rerank(queries, corpus, lists)
            # What no list holds is not found.
            scores = np.full((len(queries), len(corpus)), -1.0)
            np.put_along_axis(scores, lists.documents, lists.scores, axis=1)
            task_scores[task.name] = task.score_search(scores.__getitem__)
        return mean_score(task_scores)

    def _scores(self, pairs: Sequence[tuple[str, str]]) -> Vector:
        scores = self.model.predict(list(pairs), show_progress_bar=False)
        return np.asarray(scores, dtype=np.float64)


@dataclass(frozen=True)
class RerankingTeacher:
    """A cross-encoder, and how many pseudo-queries it is asked about."""

    reranker: Reranker
    queries: int


Teacher = TeachingModel | RerankingTeacher


@dataclass(frozen=True)
class Rankings:
    """What students of rankings learn."""

    queries: list[str]  # (Q,) pseudo-queries
    rows: RowIds  # (Q,) their places in the fitting set
    query_vectors: Vectors  # (Q, D) of the model
    document_vectors: Vectors  # (M, D)
    lists: RankedLists  # which documents each query should find

    @classmethod
    def of(
        cls,
        embeddings: Embeddings,
        fitting_set: FittingSet,
        teachers: Sequence[Teacher],
        with_bm25: bool,
    ) -> "Rankings":
        """The rankings of the model itself, BM25 and other models. Models have equal shares."""
        queries = fitting_set.pseudo_queries
        documents = fitting_set.documents
        models = [teacher.embeddings for teacher in teachers if isinstance(teacher, TeachingModel)]
        words = fitting_set.index.search(queries.texts) if with_bm25 else None
        fused = FusedList.of([embeddings, *models], words, queries.texts, documents)
        rankings = cls(
            queries.texts,
            np.arange(len(queries.texts)),
            embeddings.encode_query(queries.texts),
            embeddings.encode_document(documents),
            ranked_lists(fused.searches, fused.weights, queries.own, len(documents)),
        )
        for teacher in teachers:
            if isinstance(teacher, RerankingTeacher):
                rankings = rankings.reranked(teacher, documents)
        return rankings

    def reranked(self, teacher: RerankingTeacher, documents: Sequence[str]) -> "Rankings":
        """The rankings of as many queries as a cross-encoder has time for, in its order."""
        rows = np.array(evenly(len(self.queries), teacher.queries))
        queries = [self.queries[row] for row in rows]
        lists = RankedLists(self.lists.documents[rows], self.lists.scores[rows])
        return Rankings(
            queries,
            self.rows[rows],
            self.query_vectors[rows],
            self.document_vectors,
            teacher.reranker.rerank(queries, documents, lists),
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


def search_by_model(embeddings: Embeddings, task: DocumentTask | RetrievalSet) -> Search:
    """A task's corpus searched by the model."""
    queries, corpus = queries_and_corpus(task)
    return encoder_search(embeddings, queries, corpus)
