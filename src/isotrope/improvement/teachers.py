"""Teachers of rankings: which documents a pseudo-query should find, by those that find more than the model itself.

BM25 and further models teach together with the model, because a fusion teaches more than one of them (RankCSE,
Sec. 4.4). A cross-encoder orders their best documents anew. A teacher that finds less than the model on the tasks is
not used: this is the gate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save

from isotrope.encoder.embed import Vectors
from isotrope.evaluation.embed import Known
from isotrope.evaluation.retrieval import Lists, OwnTask, Search, by_cosine, ranked_lists, search_with
from isotrope.evaluation.self_made import SelfMadeTask
from isotrope.evaluation.sts import PairTask
from isotrope.improvement.decide import TaskScores, mean_score
from isotrope.improvement.reranker import DEPTH, Reranker, search_of
from isotrope.improvement.steps import Basis, Task
from isotrope.store.atomic import new_file
from isotrope.text.bm25 import Bm25Index
from isotrope.text.permutation import RowIds, evenly
from isotrope.types import Vector

BM25 = "BM25"
WORDS = 0.5  # BM25's share of the rankings that are taught
HYBRIDS = {f"search with {share} BM25": share for share in (0.3, 0.5)}  # BM25's share of the scores


@dataclass(frozen=True)
class TeachingModel:
    """Another model, whose vectors of all texts are known.

    Attributes:
        known: its vectors.
        score: the mean over the tasks that judge.
    """

    known: Known
    score: float


@dataclass(frozen=True)
class Rankings:
    """What students of rankings learn.

    Attributes:
        queries: (Q,) pseudo-queries.
        rows: (Q,) their places in the basis.
        asked, documents: the model's vectors of them (Q, D), and of the documents (M, D).
        lists: which documents each query should find.
    """

    queries: list[str]
    rows: RowIds
    asked: Vectors
    documents: Vectors
    lists: Lists

    @classmethod
    def of(cls, known: Known, basis: Basis, words: bool, models: Sequence[Known]) -> "Rankings":
        """By the model itself, by BM25 (``words``) and by other models, of which each has the model's own share."""
        asked = basis.asked
        searches = [by_cosine(one.encode_query(asked.texts), one.encode_document(basis.documents))
                    for one in (known, *models)]  # fmt: skip
        share = (1 - WORDS if words else 1) / len(searches)
        weights = [share] * len(searches)
        if words:
            searches, weights = [*searches, basis.index.search(asked.texts)], [*weights, WORDS]
        lists = ranked_lists(searches, weights, asked.own, len(basis.documents))
        every = np.arange(len(asked.texts))
        return cls(asked.texts, every, known.encode_query(asked.texts), known.encode_document(basis.documents), lists)

    def reranked(self, reranker: Reranker, documents: Sequence[str]) -> "Rankings":
        """With the documents (M,) ordered anew by a cross-encoder, for as many queries as it has time for."""
        some = np.array(evenly(len(self.queries), reranker.count))
        queries, lists = [self.queries[row] for row in some], Lists(*(each[some] for each in self.lists))
        lists = reranker.reranked(queries, documents, lists)
        return Rankings(queries, self.rows[some], self.asked[some], self.documents, lists)

    def save(self, path: Path) -> None:
        """Write what the encoder learns from to a .safetensors file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        places, scores = self.lists
        arrays = {"rows": self.rows, "documents": self.documents, "places": places, "scores": scores}
        with new_file(path) as file:
            file.write(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))

    @classmethod
    def load(cls, path: Path, queries: list[str]) -> "Rankings":
        """What `save` wrote, of the queries of a basis; their vectors are not kept."""
        found = load_file(path)
        lists, rows = Lists(found["places"], found["scores"]), found["rows"]
        return cls([queries[row] for row in rows], rows, np.empty((0, 0)), found["documents"], lists)


def hybrid_scores(known: Known, tasks: Sequence[Task]) -> dict[str, TaskScores]:
    """Search -> task -> (Q,), of searches that add BM25 to the model's cosines; {} where graded pairs judge.

    They say what users would gain by such a search. They are BM25's gate too: it can teach only where the two together
    find more than the model.
    """
    found: dict[str, dict[str, Vector]] = {name: {} for name in HYBRIDS}
    for task in tasks:
        if isinstance(task, PairTask):
            return {}
        both = _both(known, task)
        for name, share in HYBRIDS.items():
            found[name][task.name] = task.score_search(search_with(both, [1 - share, share]))
    return dict(found)


def reranker_score(reranker: Reranker, known: Known, tasks: Sequence[Task]) -> float:
    """How well a cross-encoder orders what the model and BM25 find together: the mean over the tasks, as of a model."""
    found = dict[str, Vector]()
    for task in tasks:
        assert not isinstance(task, PairTask)  # `read_teacher` refuses it
        queries, documents = task.domain.queries, task.domain.corpus
        nothing_own = np.full(len(queries), -1)
        lists = ranked_lists(_both(known, task), [1 - WORDS, WORDS], nothing_own, len(documents), DEPTH)
        found[task.name] = task.score_search(search_of(reranker.reranked(queries, documents, lists), len(documents)))
    return mean_score(found)


def _both(known: Known, task: SelfMadeTask | OwnTask) -> list[Search]:
    """A task searched by the model's cosines, and by words."""
    queries, documents = task.domain.queries, task.domain.corpus
    by_model = by_cosine(known.encode_query(queries), known.encode_document(documents))
    return [by_model, Bm25Index.of(documents).search(queries)]


def used_teachers(alone: TaskScores, hybrids: Mapping[str, TaskScores], others: Mapping[str, float]) -> list[str]:
    """The names of those that find more than the model: `BM25` by what it adds, another one by itself.

    Graded pairs say nothing of BM25. There it teaches too, and the pairs judge what was learned.

    Args:
        alone: the scores of the model.
        hybrids: as `hybrid_scores` gives them.
        others: name of a further teacher -> its score.
    """
    score = mean_score(alone)
    words = [BM25] if not hybrids or max(map(mean_score, hybrids.values())) > score else []
    return words + [name for name, own in others.items() if own > score]
