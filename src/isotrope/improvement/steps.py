"""Post steps of a race: what they are fitted on, what is read for that, and how they change a
search or a model.

All are fitted on pseudo-queries, which look like what users ask. Fitted on documents, whitening
harms a good model.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from sentence_transformers import SentenceTransformer

from isotrope.components.citations import cited_keys
from isotrope.encoder.embed import Vectors, vectors_of
from isotrope.encoder.length import limit_length
from isotrope.evaluation.document_tasks import DocumentTask
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.improvement.budget import Budget
from isotrope.post.fitted import LinearStep, with_linear
from isotrope.post.names import post_step
from isotrope.post.ranking_map import with_map
from isotrope.text.bm25 import Bm25Index
from isotrope.text.corpus import Document, Documents
from isotrope.text.permutation import RowIds, evenly
from isotrope.text.pseudo_queries import PseudoQueries, pseudo_queries
from isotrope.types import Matrix, Vector

Task: TypeAlias = DocumentTask | RetrievalSet | GradedPairs  # what judges

# Neither centring alone nor removal of the top direction: on a raw model, labels show harm that
# these tasks do not see
# (docs/whiten.md).
WHITENINGS = {
    "slight whitening": "whitening:exponent=0.125,shrink=true",
    "soft whitening": "whitening:exponent=0.25,shrink=true",
    "full whitening": "whitening:shrink=true",
}
QUERY_MAP = "query map"
MAPS = (QUERY_MAP, "map of all texts")  # learned from rankings: `isotrope.post.ranking_map`
POST_STEPS = (*WHITENINGS, *MAPS)
# pseudo-queries, pseudo-queries, documents
WHITENED_ON, MAPPED_ON, MOST_DOCUMENTS = 1500, 6000, 5000
PROBED = 32  # texts that tell how fast a model reads
JUDGED_LENGTH = 128  # tokens of a text that are read while candidates are compared
FOLDS = 4  # parts of these documents, each of which judges what was fitted on the others


@dataclass(frozen=True)
class Basis:
    """What post steps are fitted on: no task may hold any of it."""

    documents: list[str]  # (M,) texts
    asked: PseudoQueries  # of these documents
    seed: int  # of what is drawn
    # the documents with their titles and paragraphs (M,); without them, no folds
    pages: Sequence[Document] = ()

    @classmethod
    def of(cls, found: Documents, rows: RowIds, seed: int) -> "Basis":
        """The basis that these rows of a collection give: at most 5,000 documents, evenly spread."""
        pages = list(found.each(rows[evenly(len(rows), MOST_DOCUMENTS)]))
        asked = pseudo_queries(pages, seed=seed).sample(MAPPED_ON, seed)
        return cls([page.text for page in pages], asked, seed, pages)

    def asking(self, more: PseudoQueries) -> "Basis":
        """With more pseudo-queries of its documents."""
        one = self.asked
        lists = one.texts + more.texts, one.documents + more.documents, one.kinds + more.kinds
        return replace(self, asked=PseudoQueries(*lists))

    def part(self, count: int) -> "Basis":
        """So much of it that whitening has at most ``count`` pseudo-queries: a like share of
        documents and queries.
        """
        if count >= WHITENED_ON:
            return self
        return self._only(
            evenly(len(self.documents), -(-len(self.documents) * count // WHITENED_ON))
        )

    def folds(self) -> "list[tuple[Basis, list[Document]]]":
        """Parts of the documents, each with the basis that the others are. So all of them can judge
        what is fitted.
        """
        every = range(len(self.pages))
        return [
            (
                self._only([row for row in every if row % FOLDS != place]),
                [*self.pages[place::FOLDS]],
            )
            for place in range(FOLDS)
        ]

    def _only(self, kept: Sequence[int]) -> "Basis":
        """These documents, and what they ask."""
        places = {row: place for place, row in enumerate(kept)}
        asked = self.asked.part(
            row for row, document in enumerate(self.asked.documents) if document in places
        )
        renamed = replace(asked, documents=[places[document] for document in asked.documents])
        pages = [self.pages[row] for row in kept] if self.pages else ()
        return Basis([self.documents[row] for row in kept], renamed, self.seed, pages)

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


def words_read(texts: Iterable[str]) -> int:
    """Words that are read of these texts, about: a word may be several tokens."""
    return sum(min(len(text.split()), JUDGED_LENGTH) for text in texts)


def texts_read(
    tasks: Iterable[Task], basis: Basis, steps: Sequence[str]
) -> tuple[list[str], list[str]]:
    """All that is encoded to measure one encoder with these post steps: queries, and other texts."""
    queries, documents = (list(texts) for texts in basis.texts(steps))
    for task in tasks:
        if isinstance(task, GradedPairs):  # both sides of a graded pair are read alike
            documents += task.texts
        else:
            queries += task.queries
            documents += task.corpus
    return list(dict.fromkeys(queries)), list(dict.fromkeys(documents))


def speed_of(model: SentenceTransformer, texts: Sequence[str]) -> float:
    """Words that a model reads in a second, by the budget's clock, from a few of the texts."""
    some = [texts[place] for place in evenly(len(texts), PROBED)]
    with limit_length(model, JUDGED_LENGTH):
        vectors_of(model, some[:2])  # the first call is slower
        began = Budget.clock.now()
        vectors_of(model, some, batch_size=PROBED)
    return words_read(some) / max(Budget.clock.now() - began, 1e-6)


@dataclass(frozen=True)
class Fitted:
    """A fitted step: x → (x − μ) W, of queries alone or of all texts."""

    mean: Vector  # μ (D,)
    matrix: Matrix  # W (D, K)
    queries_only: bool = False  # documents keep their vectors

    def searching(self, known: Embeddings) -> Embeddings:
        """The known texts as the model with this step has them."""
        moved = Embeddings(
            known.texts, self._moved(known.vectors), similarity=known.similarity_fn_name
        )
        if not (self.queries_only or known.queries):
            return moved
        asked = known.queries or known
        documents = known if self.queries_only else moved
        return Embeddings(
            documents.texts,
            documents.vectors,
            Embeddings(asked.texts, self._moved(asked.vectors)),
            known.similarity_fn_name,
        )

    def after(self, encoder: SentenceTransformer) -> SentenceTransformer:
        """The model with this step as its last layer."""
        if self.queries_only:
            return with_map(encoder, self.matrix - np.eye(len(self.matrix)))
        return with_linear(encoder, self.mean, self.matrix)

    def _moved(self, vectors: Vectors) -> Vectors:
        return np.asarray((vectors - self.mean) @ self.matrix)


def whitening_step(name: str, known: Embeddings, basis: Basis) -> Fitted:
    """One of `WHITENINGS`, fitted on the vectors of a basis; UserError if it has too few texts."""
    vectors = np.asarray(known.encode_query(basis.whitened_on), dtype=np.float64)
    return Fitted(*linear_step(WHITENINGS[name]).linear(vectors))


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
