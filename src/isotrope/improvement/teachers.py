"""Teachers of rankings: which documents a pseudo-query should find, by those that find more than
the model itself.

BM25 and further models teach together with the model, because a fusion teaches more than one of
them (RankCSE, Sec. 4.4). A cross-encoder reads a query and a document together, and so sees more
than vectors: it orders the best documents of a fused list anew (Nogueira and Cho, 2019,
https://arxiv.org/abs/1901.04085). A reading costs as much as encoding both texts, so it is asked
about as many pseudo-queries as there is time for.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sentence_transformers import CrossEncoder
from sentence_transformers.util import load_file_path
from transformers import AutoConfig

from isotrope.encoder import load
from isotrope.encoder.embed import Vectors
from isotrope.encoder.faults import loading, quiet
from isotrope.encoder.locate import locate
from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import DocumentTask
from isotrope.evaluation.embed import Embeddings, embed_texts
from isotrope.evaluation.search import RankedLists, Search, by_cosine, ranked_lists, search_with
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.improvement.decide import TaskScores, mean_score
from isotrope.improvement.steps import (
    JUDGED_LENGTH,
    MAPS,
    QUERY_MAP,
    Basis,
    Fitted,
    Task,
    speed_of,
    texts_read,
    words_read,
)
from isotrope.post.ranking_map import ranking_map
from isotrope.text.bm25 import Bm25Index
from isotrope.text.permutation import RowIds, evenly
from isotrope.types import Vector

BM25 = "BM25"
WORDS = 0.5  # BM25's share of the rankings that are taught
HYBRIDS = {f"search with {share} BM25": share for share in (0.3, 0.5)}  # BM25's share of the scores
DEPTH = 50  # documents of a list that a cross-encoder reads
FEWEST = 200  # pseudo-queries that it must have time for: fewer teach too little
LENGTH = 256  # tokens of a query and a document
PROBED = 32  # pairs that tell how fast it reads


@dataclass(frozen=True)
class TeachingModel:
    """Another model, whose vectors of all texts are known."""

    known: Embeddings
    score: float  # the mean over the tasks that judge


def is_cross_encoder(model: str) -> bool:
    """Whether a model gives one score to two texts, and no vectors."""
    where = locate(model)
    try:
        config = AutoConfig.from_pretrained(where, trust_remote_code=False)
    except (OSError, ValueError):  # such as a table of word vectors, which has no configuration
        return False
    modules = load_file_path(where, "modules.json")
    pooled = modules is not None and "Pooling" in Path(modules).read_text(encoding="utf-8")
    return not pooled and any(
        name.endswith("ForSequenceClassification") for name in config.architectures or ()
    )


@dataclass(frozen=True)
class Reranker:
    """A loaded cross-encoder."""

    model: CrossEncoder
    count: int = 0  # pseudo-queries that it orders documents for

    @classmethod
    def load(cls, model: str) -> "Reranker":
        """Load it from a folder or the hub: safetensors only, and no code of the model.

        Raises:
            UserError: it gives several scores to a pair.
        """
        with loading(where := locate(model), model), quiet():
            found = CrossEncoder(
                where, trust_remote_code=False, model_kwargs={"use_safetensors": True}
            )
        found.max_length = min(found.max_length or LENGTH, LENGTH)
        if found.config.num_labels != 1:
            problem = f"{model} gives {found.config.num_labels} scores to two texts"
            raise UserError(problem, "name a cross-encoder that gives one, as those for search do")
        return cls(found)

    def speed(self, queries: Sequence[str], documents: Sequence[str]) -> float:
        """Pairs that it reads in a second."""
        pairs = [(queries[i % len(queries)], documents[i % len(documents)]) for i in range(PROBED)]
        self._scores(pairs[:2])  # the first call is slower
        began = time.monotonic()
        self._scores(pairs)
        return PROBED / max(time.monotonic() - began, 1e-6)

    def reranked(
        self, queries: Sequence[str], documents: Sequence[str], lists: RankedLists
    ) -> RankedLists:
        """Order the best 50 of each list anew: scores from 0 to 1, and 0 for what comes behind
        them.
        """
        # (Q, 50) places in the lists
        best = np.argsort(-lists.scores, axis=1, kind="stable")[:, :DEPTH]
        read = np.take_along_axis(lists.documents, best, axis=1)
        pairs = [
            (query, documents[row])
            for query, rows in zip(queries, read.tolist(), strict=True)
            for row in rows
        ]
        found = self._scores(pairs).reshape(best.shape)
        low, high = found.min(axis=1, keepdims=True), found.max(axis=1, keepdims=True)
        scores = np.zeros_like(lists.scores)
        np.put_along_axis(scores, best, (found - low) / np.where(high > low, high - low, 1), axis=1)
        return RankedLists(lists.documents, scores)

    def score(self, known: Embeddings, tasks: Sequence[DocumentTask | RetrievalSet]) -> float:
        """How well it orders what the model and BM25 find together: the mean over the tasks, as of
        a model.
        """
        found = dict[str, Vector]()
        for task in tasks:
            queries, documents = task.queries, task.corpus
            nothing_own = np.full(len(queries), -1)
            lists = ranked_lists(
                _both(known, task), [1 - WORDS, WORDS], nothing_own, len(documents), DEPTH
            )
            lists = self.reranked(queries, documents, lists)
            # what no list holds is not found
            scores = np.full((len(queries), len(documents)), -1.0)
            np.put_along_axis(scores, lists.documents, lists.scores, axis=1)
            found[task.name] = task.score_search(scores.__getitem__)
        return mean_score(found)

    def _scores(self, pairs: Sequence[tuple[str, str]]) -> Vector:
        return np.asarray(
            self.model.predict(list(pairs), show_progress_bar=False), dtype=np.float64
        )


@dataclass(frozen=True)
class Rankings:
    """What students of rankings learn."""

    queries: list[str]  # (Q,) pseudo-queries
    rows: RowIds  # (Q,) their places in the basis
    asked: Vectors  # the model's vectors of them (Q, D)
    documents: Vectors  # and of the documents (M, D)
    lists: RankedLists  # which documents each query should find

    @classmethod
    def of(
        cls, known: Embeddings, basis: Basis, words: bool, models: Sequence[Embeddings]
    ) -> "Rankings":
        """By the model itself, by BM25 (``words``) and by other models, of which each has the
        model's own share.
        """
        asked = basis.asked
        searches = [
            by_cosine(one.encode_query(asked.texts), one.encode_document(basis.documents))
            for one in (known, *models)
        ]
        weights = [(1 - WORDS if words else 1) / len(searches)] * len(searches)
        if words:
            searches, weights = [*searches, basis.index.search(asked.texts)], [*weights, WORDS]
        lists = ranked_lists(searches, weights, asked.own, len(basis.documents))
        every = np.arange(len(asked.texts))
        return cls(
            asked.texts,
            every,
            known.encode_query(asked.texts),
            known.encode_document(basis.documents),
            lists,
        )

    def reranked(self, reranker: Reranker, documents: Sequence[str]) -> "Rankings":
        """With the documents (M,) ordered anew by a cross-encoder, for as many queries as it has
        time for.
        """
        some = np.array(evenly(len(self.queries), reranker.count))
        queries, lists = (
            [self.queries[row] for row in some],
            RankedLists(*(each[some] for each in self.lists)),
        )
        lists = reranker.reranked(queries, documents, lists)
        return Rankings(queries, self.rows[some], self.asked[some], self.documents, lists)

    def learned(self, step: str, seed: int) -> Fitted:
        """One of `isotrope.improvement.steps.MAPS`, trained on the vectors and their rankings."""
        both = step != QUERY_MAP
        matrix = ranking_map(self.asked, self.documents, *self.lists, both=both, seed=seed)
        return Fitted(np.zeros(len(matrix)), np.eye(len(matrix)) + matrix, queries_only=not both)


def hybrid_scores(known: Embeddings, tasks: Sequence[Task]) -> dict[str, TaskScores]:
    """Search -> task -> (Q,), of searches that add BM25 to the model's cosines; {} where graded
    pairs judge.

    They say what users would gain by such a search. They are BM25's gate too: it can teach only
    where the two together find more than the model.
    """
    found: dict[str, dict[str, Vector]] = {name: {} for name in HYBRIDS}
    for task in tasks:
        if isinstance(task, GradedPairs):
            return {}
        both = _both(known, task)
        for name, share in HYBRIDS.items():
            found[name][task.name] = task.score_search(search_with(both, [1 - share, share]))
    return {**found}


def _both(known: Embeddings, task: DocumentTask | RetrievalSet) -> list[Search]:
    """A task searched by the model's cosines, and by words."""
    queries, documents = task.queries, task.corpus
    by_model = by_cosine(known.encode_query(queries), known.encode_document(documents))
    return [by_model, Bm25Index.of(documents).search(queries)]


def read_teacher(
    where: str, tasks: Sequence[Task], basis: Basis, seconds: float, count: int = 0
) -> TeachingModel | Reranker:
    """A further teacher: a model that has read all texts of the tasks and the basis, or a
    cross-encoder.

    ``count`` pseudo-queries are what a cross-encoder is asked about; 0: as many as ``seconds``
    leave time for.

    Raises:
        UserError: it would take longer, or cannot be judged.
    """
    if is_cross_encoder(where):
        judging = [len(task.queries) for task in tasks if not isinstance(task, GradedPairs)]
        if not judging:
            raise UserError(
                "graded pairs cannot say how well a cross-encoder orders documents",
                "judge by searches",
            )
        reranker, wanted = Reranker.load(where), len(basis.asked.texts)
        lists = reranker.speed(basis.asked.texts, basis.documents) / DEPTH  # a second
        if not count:
            _check_time(
                (min(FEWEST, wanted) + sum(judging)) / lists, seconds, "order the documents"
            )
        possible = int(min(seconds * lists, sys.maxsize)) - sum(judging)
        return replace(reranker, count=count or min(possible, wanted))
    model, (queries, documents) = load(where), texts_read(tasks, basis, MAPS)
    every = [*queries, *documents]
    _check_time(words_read(every) / speed_of(model, every), seconds, "read the texts")
    known = embed_texts(model, queries, documents, JUDGED_LENGTH)
    return TeachingModel(known, mean_score({task.name: task.score(known) for task in tasks}))


def _check_time(needed: float, seconds: float, work: str) -> None:
    if needed > seconds:
        raise UserError(f"it would take {needed / 60:.0f} minutes to {work}", "give more minutes")
