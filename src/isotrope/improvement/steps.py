"""Post steps of a race: what they are fitted on, what they change in a search, and how a model gets them.

All are fitted on pseudo-queries, which look like what users ask. Fitted on documents, whitening harms a good model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from sentence_transformers import SentenceTransformer

from isotrope.components.citations import cited_keys
from isotrope.encoder.embed import Vectors
from isotrope.evaluation.embed import Known
from isotrope.evaluation.retrieval import OwnTask, by_cosine, ranked_lists, search_with
from isotrope.evaluation.self_made import SelfMadeTask
from isotrope.evaluation.sts import PairTask
from isotrope.improvement.decide import TaskScores, mean_score
from isotrope.post.fitted import LinearStep, with_linear
from isotrope.post.names import post_step
from isotrope.post.ranking_map import ranking_map, with_map
from isotrope.text.bm25 import Bm25Index
from isotrope.text.corpus import Documents
from isotrope.text.permutation import RowIds, evenly
from isotrope.text.pseudo_queries import PseudoQueries, pseudo_queries
from isotrope.types import Matrix, Vector

Task: TypeAlias = SelfMadeTask | OwnTask | PairTask  # what judges

# Neither centring alone nor removal of the top direction: on a raw model, labels show harm that these tasks do not see
# (docs/whiten.md).
WHITENINGS = {
    "slight whitening": "whitening:exponent=0.125,shrink=true",
    "soft whitening": "whitening:exponent=0.25,shrink=true",
    "full whitening": "whitening:shrink=true",
}
QUERY_MAP = "query map"
MAPS = (QUERY_MAP, "map of all texts")  # learned from rankings: `isotrope.post.ranking_map`
POST_STEPS = (*WHITENINGS, *MAPS)
BM25 = 0.5  # its share of the rankings that a map learns
HYBRIDS = {f"search with {share} BM25": share for share in (0.3, 0.5)}  # BM25's share of the scores
WHITENED_ON, MAPPED_ON, MOST_DOCUMENTS = 1500, 6000, 5000  # pseudo-queries, pseudo-queries, documents


@dataclass(frozen=True)
class Basis:
    """What post steps are fitted on: no task may hold any of it.

    Attributes:
        documents: (M,) texts.
        asked: pseudo-queries of these documents.
        seed: of what is drawn.
    """

    documents: list[str]
    asked: PseudoQueries
    seed: int

    @classmethod
    def of(cls, found: Documents, rows: RowIds, seed: int) -> "Basis":
        """The basis that these rows of a collection give: at most 5,000 documents, evenly spread."""
        some = rows[evenly(len(rows), MOST_DOCUMENTS)]
        asked = pseudo_queries(found.each(some), seed=seed).sample(MAPPED_ON, seed)
        return cls(found.texts(some), asked, seed)

    def part(self, count: int) -> "Basis":
        """So much of it that whitening has at most ``count`` pseudo-queries: a like share of documents and queries."""
        if count >= WHITENED_ON:
            return self
        kept = evenly(len(self.documents), -(-len(self.documents) * count // WHITENED_ON))
        places = {row: place for place, row in enumerate(kept)}
        rows = [row for row, document in enumerate(self.asked.documents) if document in places]
        asked = self.asked.part(rows)
        renamed = PseudoQueries(asked.texts, [places[document] for document in asked.documents], asked.kinds)
        return Basis([self.documents[row] for row in kept], renamed, self.seed)

    @property
    def whitened_on(self) -> list[str]:
        """The pseudo-queries that whitening is fitted on."""
        return [self.asked.texts[row] for row in evenly(len(self.asked.texts), WHITENED_ON)]

    def texts(self, steps: Sequence[str]) -> tuple[list[str], list[str]]:
        """The queries and the documents that these steps need."""
        if any(step in MAPS for step in steps):
            return self.asked.texts, self.documents
        return (self.whitened_on, []) if steps else ([], [])

    @cached_property
    def index(self) -> Bm25Index:
        """The documents by their words."""
        return Bm25Index.of(self.documents)


@dataclass(frozen=True)
class Fitted:
    """A fitted step: x → (x − μ) W, of queries alone or of all texts.

    Attributes:
        mean, matrix: μ (D,) and W (D, K).
        queries_only: whether documents keep their vectors.
    """

    mean: Vector
    matrix: Matrix
    queries_only: bool = False

    def searching(self, known: Known) -> Known:
        """The known texts as the model with this step has them."""
        moved = Known(known.texts, self._moved(known.vectors))
        if not (self.queries_only or known.queries):
            return moved
        asked = known.queries or known
        documents = known if self.queries_only else moved
        return Known(documents.texts, documents.vectors, Known(asked.texts, self._moved(asked.vectors)))

    def after(self, encoder: SentenceTransformer) -> SentenceTransformer:
        """The model with this step as its last layer."""
        if self.queries_only:
            return with_map(encoder, self.matrix - np.eye(len(self.matrix)))
        return with_linear(encoder, self.mean, self.matrix)

    def _moved(self, vectors: Vectors) -> Vectors:
        return np.asarray((vectors - self.mean) @ self.matrix)


def fitted_step(name: str, known: Known, basis: Basis) -> Fitted:
    """A step of `POST_STEPS`, fitted on the vectors of a basis.

    Raises:
        UserError: there are too few texts.
    """
    if name in WHITENINGS:
        vectors = np.asarray(known.encode_query(basis.whitened_on), dtype=np.float64)
        return Fitted(*linear_step(WHITENINGS[name]).linear(vectors))
    asked, both = basis.asked, name != QUERY_MAP
    queries, documents = known.encode_query(asked.texts), known.encode_document(basis.documents)
    teachers = [by_cosine(queries, documents), basis.index.search(asked.texts)]
    lists = ranked_lists(teachers, [1 - BM25, BM25], asked.own, len(basis.documents))
    matrix = ranking_map(queries, documents, lists.documents, lists.scores, both=both, seed=basis.seed)
    return Fitted(np.zeros(len(matrix)), np.eye(len(matrix)) + matrix, queries_only=not both)


def hybrid_scores(known: Known, tasks: Sequence[Task]) -> dict[str, TaskScores]:
    """Search -> task -> (Q,), of searches that add BM25 to the model's cosines; {} where graded pairs judge.

    They say what users would gain by such a search. They are a gate too: a map that follows BM25 and the model
    together can help only where the two together find more than the model.
    """
    found: dict[str, dict[str, Vector]] = {name: {} for name in HYBRIDS}
    for task in tasks:
        if isinstance(task, PairTask):
            return {}
        queries, documents = task.domain.queries, task.domain.corpus
        by_model = by_cosine(known.encode_query(queries), known.encode_document(documents))
        by_words = Bm25Index.of(documents).search(queries)
        for name, share in HYBRIDS.items():
            found[name][task.name] = task.score_search(search_with([by_model, by_words], [1 - share, share]))
    return dict(found)


def helpful(hybrids: Mapping[str, TaskScores], alone: TaskScores) -> bool:
    """Whether any search with BM25 finds more than the model alone: see `hybrid_scores`."""
    return max(map(mean_score, hybrids.values())) > mean_score(alone)


def linear_step(text: str) -> LinearStep:
    """A post step that can be saved with a model."""
    step = post_step(text, text)
    assert isinstance(step, LinearStep)
    return step


def cites_of(name: str) -> list[str]:
    """The BibTeX keys of a step's method; "" is no step."""
    if name in WHITENINGS:
        return cited_keys([type(linear_step(WHITENINGS[name]))])
    return ["liu2023rankcse"] if name in MAPS else []
