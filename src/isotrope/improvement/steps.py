"""Post steps of a race: what they are fitted on, and how they change a search or a model.

All are fitted on pseudo-queries, which look like what users ask. Fitted on documents, whitening
harms a good model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from sentence_transformers import SentenceTransformer

from isotrope.components.citations import cited_keys
from isotrope.encoder.embed import Vectors
from isotrope.evaluation.embed import Embeddings
from isotrope.post.fitted import LinearStep, with_linear
from isotrope.post.names import post_step
from isotrope.post.ranking_map import with_map
from isotrope.text.bm25 import Bm25Index
from isotrope.text.corpus import Documents
from isotrope.text.permutation import RowIds, evenly
from isotrope.text.pseudo_queries import PseudoQueries, pseudo_queries
from isotrope.types import Matrix, Vector

# Neither centring alone nor removal of the top direction: on a raw model, labels show harm that
# the tasks do not see (docs/whiten.md).
WHITENINGS = {
    "slight whitening": "whitening:exponent=0.125,shrink=true",
    "soft whitening": "whitening:exponent=0.25,shrink=true",
    "full whitening": "whitening:shrink=true",
}
QUERY_MAP = "query map"
MAPS = (QUERY_MAP, "map of all texts")  # learned from rankings: `isotrope.post.ranking_map`
POST_STEPS = (*WHITENINGS, *MAPS)

MOST_FITTING = 5000  # documents that post steps are fitted on
WHITENING_QUERIES = 1500  # pseudo-queries that whitening is fitted on
MAP_QUERIES = 6000  # pseudo-queries that maps are learned from


@dataclass(frozen=True)
class FittingSet:
    """What post steps are fitted on. No document of it chooses or judges."""

    documents: list[str]  # (M,) texts
    pseudo_queries: PseudoQueries  # of these documents
    seed: int  # of what is drawn
    rows: RowIds  # (M,) places of the documents in their collection

    @classmethod
    def of(cls, documents: Documents, rows: RowIds, seed: int) -> "FittingSet":
        """The fitting set of these rows: at most 5,000 documents, evenly spread."""
        rows = rows[evenly(len(rows), MOST_FITTING)]
        pages = list(documents.each(rows))
        queries = pseudo_queries(pages, seed=seed).sample(MAP_QUERIES, seed)
        return cls([page.text for page in pages], queries, seed, rows)

    def part(self, count: int) -> "FittingSet":
        """At most ``count`` documents, evenly spread, and their pseudo-queries."""
        if count >= len(self.documents):
            return self
        return self.at(np.array(evenly(len(self.documents), count), dtype=np.int64))

    def at(self, places: RowIds) -> "FittingSet":
        """The documents at these places (P,), which rise, and their pseudo-queries."""
        own = self.pseudo_queries.own
        rows = np.flatnonzero(np.isin(own, places))
        queries = self.pseudo_queries.part(rows)
        queries = replace(queries, documents=np.searchsorted(places, own[rows]).tolist())
        documents = [self.documents[place] for place in places]
        return FittingSet(documents, queries, self.seed, self.rows[places])

    @property
    def whitening_queries(self) -> list[str]:
        """The pseudo-queries that whitening is fitted on."""
        texts = self.pseudo_queries.texts
        return [texts[row] for row in evenly(len(texts), WHITENING_QUERIES)]

    def texts(self, steps: Sequence[str]) -> tuple[list[str], list[str]]:
        """The queries and the documents that must be encoded to fit these steps."""
        if any(step in MAPS for step in steps):
            return self.pseudo_queries.texts, self.documents
        return (self.whitening_queries if steps else []), []

    @cached_property
    def index(self) -> Bm25Index:
        """The documents by their words."""
        return Bm25Index.of(self.documents)


@dataclass(frozen=True)
class FittedStep:
    """A fitted step: x → (x − μ) W, of queries only or of all texts."""

    mean: Vector  # μ (D,)
    matrix: Matrix  # W (D, K)
    queries_only: bool = False  # documents keep their vectors

    def apply(self, embeddings: Embeddings) -> Embeddings:
        """The same texts as the model with this step encodes them."""
        queries = embeddings.queries
        vectors = embeddings.vectors
        if not self.queries_only:
            vectors = self._moved(vectors)
        elif queries is None:
            queries = embeddings
        if queries is not None:
            queries = Embeddings(queries.texts, self._moved(queries.vectors))
        return Embeddings(embeddings.texts, vectors, queries, embeddings.similarity_fn_name)

    def add_to(self, encoder: SentenceTransformer) -> SentenceTransformer:
        """The model with this step as its last layer."""
        if self.queries_only:
            return with_map(encoder, self.matrix - np.eye(len(self.matrix)))
        return with_linear(encoder, self.mean, self.matrix)

    def _moved(self, vectors: Vectors) -> Vectors:
        return np.asarray((vectors - self.mean) @ self.matrix)


def fit_whitening(name: str, embeddings: Embeddings, fitting_set: FittingSet) -> FittedStep:
    """Fit one of `WHITENINGS` to the pseudo-queries. UserError if there are too few of them."""
    vectors = embeddings.encode_query(fitting_set.whitening_queries)
    step = linear_step(WHITENINGS[name])
    mean, matrix = step.linear(np.asarray(vectors, dtype=np.float64))
    return FittedStep(mean, matrix)


def linear_step(text: str) -> LinearStep:
    """A post step that can be saved with a model."""
    step = post_step(text, text)
    assert isinstance(step, LinearStep)
    return step


def cites_of(step: str) -> list[str]:
    """The BibTeX keys of a step's method; none for ""."""
    if step in WHITENINGS:
        return cited_keys([type(linear_step(WHITENINGS[step]))])
    return ["liu2023rankcse"] if step in MAPS else []
