"""A few searches as two models answer them, for readers who want to see what a score means."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from textwrap import shorten
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.preprocessing import normalize

from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.report.tables import Marks, Table
from isotrope.store.files import Record
from isotrope.text.permutation import evenly

SHOWN_SEARCHES = 5
SHOWN_HITS = 3  # texts that a search finds
MOST_TEXTS = 2_000  # that are encoded to show searches
# Characters that are shown.
QUERY_LENGTH = 90
TEXT_LENGTH = 60

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Answers:
    """What Q searches find by the vectors of one model."""

    hits: Indices  # (Q, SHOWN_HITS) rows of texts, the best first
    right: npt.NDArray[np.bool_]  # (Q, SHOWN_HITS) whether each of these is relevant
    places: Indices  # (Q,) of the first relevant text, from 0; M if there is none

    @classmethod
    def of(cls, searches: RetrievalSet, embeddings: Embeddings) -> "Answers":
        """By the cosine of the queries' and the texts' vectors."""
        order = _nearest(searches, embeddings)  # (Q, M)
        relevant = searches.grades.toarray() > 0  # (Q, M)
        right = np.take_along_axis(relevant, order, axis=1)
        places = np.where(right.any(axis=1), right.argmax(axis=1), len(searches.corpus))
        return cls(order[:, :SHOWN_HITS], right[:, :SHOWN_HITS], places)

    @property
    def right_first(self) -> float:
        """The share of searches that find a relevant text first."""
        return float(np.mean(self.right[:, 0]))


@dataclass(frozen=True, slots=True)
class ShownSearch:
    """A query, and the beginnings of the texts that it finds with two models."""

    query: str
    before: list[str]
    after: list[str]


@dataclass(frozen=True, slots=True)
class SearchChanges:
    """How the answers to all searches change, and some of them."""

    queries: int
    earlier: int  # searches whose first relevant text comes earlier than before
    later: int
    told: list[ShownSearch]

    @classmethod
    def of(cls, searches: RetrievalSet, before: Answers, after: Answers) -> "SearchChanges":
        """Searches are shown that only one of the two models answers, evenly spread over them."""
        is_answered_by_one = before.right.any(axis=1) != after.right.any(axis=1)
        changed = np.flatnonzero(is_answered_by_one)
        rows = changed[evenly(len(changed), SHOWN_SEARCHES)]
        return cls(
            queries=len(searches.queries),
            earlier=int((after.places < before.places).sum()),
            later=int((after.places > before.places).sum()),
            told=[_shown_search(searches, int(row), before, after) for row in rows],
        )


def compare_searches(
    searches: RetrievalSet, embeddings_before: Embeddings, embeddings_after: Embeddings
) -> Record:
    """How two models answer the same searches, as a result keeps it.

    Returns:
        "queries"; "first": how often each finds a right text first; "shown": `SearchChanges`.
    """
    before = Answers.of(searches, embeddings_before)
    after = Answers.of(searches, embeddings_after)
    return {
        "queries": len(searches.queries),
        "first": [before.right_first, after.right_first],
        "shown": asdict(SearchChanges.of(searches, before, after)),
    }


def examples_table(shown: Mapping[str, Any]) -> Table:
    """Three rows a search of `SearchChanges`, a record of which is ``shown``."""
    rows = []
    for search in shown["told"]:
        rows.append(["search", search["query"]])
        rows.append(["before", "\n".join(search["before"])])
        rows.append(["after", "\n".join(search["after"])])
    marks: Marks = {(row, 1): "best" for row in range(0, len(rows), 3)}
    counts = (
        f"Of {shown['queries']:,} searches, {shown['earlier']:,} find their first right text "
        f"earlier than before, and {shown['later']:,} later."
    )
    signs = "✓ is a right text, → one that was not found before."
    title = "Searches that only one of the two models answers"
    return Table(title, ["", ""], rows, marks, words=2, notes=[counts, signs])


def _nearest(searches: RetrievalSet, embeddings: Embeddings) -> Indices:
    """The rows of all texts for each query, the nearest first: (Q, M).

    What a query should not find comes last.
    """
    queries = embeddings.encode_query(searches.queries)  # (Q, D)
    texts = embeddings.encode_document(searches.corpus)  # (M, D)
    cosines = normalize(queries) @ normalize(texts).T  # (Q, M)
    own_documents = searches.own_documents
    if own_documents is not None:
        rows = np.flatnonzero(own_documents >= 0)
        cosines[rows, own_documents[rows]] = -np.inf
    return np.argsort(-cosines, axis=1, kind="stable")


def _shown_search(searches: RetrievalSet, row: int, before: Answers, after: Answers) -> ShownSearch:
    query = shorten(searches.queries[row], QUERY_LENGTH, placeholder=" …")
    hits_before = set(before.hits[row].tolist())
    return ShownSearch(
        query,
        _shown_hits(searches, row, before, hits_before),
        _shown_hits(searches, row, after, hits_before),
    )


def _shown_hits(
    searches: RetrievalSet, row: int, answers: Answers, hits_before: set[int]
) -> list[str]:
    """The beginnings of the texts that one search finds, each with its signs."""
    shown = []
    for hit, is_right in zip(answers.hits[row].tolist(), answers.right[row], strict=True):
        text = shorten(searches.corpus[hit], TEXT_LENGTH, placeholder=" …")
        new = "" if hit in hits_before else "→ "
        right = "✓ " if is_right else ""
        shown.append(f"{new}{right}{text}")
    return shown
