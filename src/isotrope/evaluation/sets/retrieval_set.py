"""Queries, a corpus, and what is relevant to what: what a search is judged on."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas
import xxhash
from scipy.sparse import csr_array

from isotrope.errors import UserError
from isotrope.evaluation.results import Indices
from isotrope.evaluation.search import CUTOFF, Search, encoder_search, ndcg_at, rank_search
from isotrope.text.permutation import evenly
from isotrope.types import Encoder, Vector


@dataclass(frozen=True, slots=True)
class RetrievalSet:
    """Q queries, M texts of a corpus, and how relevant each text is to each query."""

    name: str
    queries: list[str]  # (Q,)
    corpus: list[str]  # (M,)
    grades: csr_array  # (Q, M); 0 = not relevant, and most sets have no grade but 1
    # (Q,) the place in the corpus of the query itself, which it should not find; -1: not there
    own_documents: Indices | None = None
    labels: Indices | None = None  # (Q,) classes of the queries, if there are any
    read_as: str = ""  # what a file or a table was taken for

    @property
    def size(self) -> int:
        """Q."""
        return len(self.queries)

    @property
    def texts(self) -> list[str]:
        """All that is encoded, repeated texts included."""
        return [*self.queries, *self.corpus]

    @property
    def own(self) -> bool:
        """Whether the corpus is the queries."""
        return self.corpus == self.queries

    def described_as(self, read_as: str) -> "RetrievalSet":
        """The same searches, with what their source was taken for.

        What is not obvious is added: empty documents, and queries that are documents.
        """
        empty = sum(not text for text in self.corpus)
        if empty:
            read_as += f"; {empty:,} documents are empty"
        if self.own_documents is not None and not self.own:
            count = int((self.own_documents >= 0).sum())
            read_as += f"; {count:,} queries are documents, which they need not find"
        return replace(self, read_as=read_as)

    def part(self, count: int) -> "RetrievalSet":
        """At most ``count`` queries that have something to find, what is relevant to them, and as
        large a share of the other texts.
        """
        if count >= self.size:
            return self

        answerable = np.flatnonzero(np.diff(self.grades.indptr))
        rows = answerable[evenly(len(answerable), count)]
        columns = rows if self.own else self._columns_for(rows)

        return RetrievalSet(
            self.name,
            queries=[self.queries[row] for row in rows],
            corpus=[self.corpus[column] for column in columns],
            grades=csr_array(self.grades[rows][:, columns]),
            own_documents=_renumbered(self.own_documents, rows, columns),
            labels=None if self.labels is None else self.labels[rows],
        )

    def _columns_for(self, rows: Indices) -> Indices:
        """What is relevant to the queries of these rows, and a like share of the other texts."""
        relevant = np.unique(self.grades[rows].indices)
        others = np.setdiff1d(np.arange(len(self.corpus)), relevant)
        count = round(len(others) * len(rows) / self.size)
        share = evenly(len(others), count)
        return np.union1d(relevant, others[share])

    def score(self, encoder: Encoder) -> Vector:
        """nDCG@10 of each query that has something to find: (Q',)."""
        return self.score_search(encoder_search(encoder, self.queries, self.corpus))

    def score_search(self, search: Search) -> Vector:
        """`score` of any search (Q',)."""
        ranked = rank_search(search, self.grades, CUTOFF, self.own_documents)
        return ndcg_at(ranked, CUTOFF)[ranked.relevant > 0]

    def checksum(self) -> str:
        """xxh3 (128 bits, hexadecimal) of the texts, the grades and the classes, in their order."""
        digest = xxhash.xxh3_128(json.dumps([self.queries, self.corpus]).encode())
        grades = self.grades.sorted_indices()  # the order of entries says nothing
        parts = (grades.indptr, grades.indices, grades.data, self.own_documents, self.labels)
        for part in parts:
            numbers = np.array([-1]) if part is None else part
            digest.update(np.ascontiguousarray(numbers, "<f8").tobytes())
        return digest.hexdigest()


def _renumbered(documents: Indices | None, rows: Indices, columns: Indices) -> Indices | None:
    """The documents (Q,) of these rows, by their places among the columns; -1: not there."""
    if documents is None:
        return None
    own = documents[rows]
    places = np.searchsorted(columns, own)  # the columns rise
    return np.where(np.isin(own, columns), places, -1)


def same_class(
    name: str,
    queries: list[str],
    labels: Sequence[str],
    corpus: list[str] | None = None,
    corpus_labels: Sequence[str] = (),
) -> RetrievalSet:
    """Texts (Q,) of labelled classes (Q,) that shall find those of their class, in a corpus (M,) or
    among themselves.

    Raises UserError if there is one class only, or if no query has anything to find.
    """
    all_labels = np.array([*labels, *corpus_labels], dtype=object)
    numbers, names = pandas.factorize(all_labels, sort=True)
    classes, corpus_classes = np.split(numbers, [len(labels)])

    members = membership(classes, len(names))  # (Q, C)
    if corpus is None:
        grades = members @ members.T  # (Q, Q)
        grades.setdiag(0)
        grades.eliminate_zeros()
    else:
        grades = members @ membership(corpus_classes, len(names)).T  # (Q, M)

    if len(names) < 2 or grades.nnz == 0:
        raise UserError(
            f"{name}: {len(queries):,} texts of {len(names):,} class(es)",
            "give at least two classes, and several texts of a class",
            code="too-few-classes",
        )
    return RetrievalSet(
        name,
        queries,
        corpus=queries if corpus is None else corpus,
        grades=csr_array(grades),
        own_documents=np.arange(len(queries)) if corpus is None else None,
        labels=classes,
    )


def membership(classes: Indices, class_count: int) -> csr_array:
    """1 where text n is in class c: (N,) → (N, C)."""
    rows = np.arange(len(classes))
    return csr_array((np.ones(len(classes)), (rows, classes)), shape=(len(classes), class_count))


def from_judgements(
    name: str,
    queries: Mapping[str, str],
    corpus: Mapping[str, str],
    judged: Mapping[tuple[str, str], int],
) -> RetrievalSet:
    """Queries and texts by their ids, and the grade of each (query, text) that somebody judged;
    others are 0.

    A text with the id of a query that holds its words is this query, and is left out of what it
    finds, as in BEIR and mteb. The words are compared because some collections, such as CACM,
    number queries and documents independently.
    """
    row_of = {key: row for row, key in enumerate(queries)}
    column_of = {key: column for column, key in enumerate(corpus)}

    rows = [row_of[query] for query, _ in judged]
    columns = [column_of[text] for _, text in judged]
    values = np.array(list(judged.values()), dtype=np.float64)
    shape = (len(queries), len(corpus))
    grades = csr_array((values, (rows, columns)), shape=shape)
    grades.eliminate_zeros()

    own_documents = np.full(len(queries), -1)  # (Q,)
    for key, query in queries.items():
        if query in corpus.get(key, ""):
            own_documents[row_of[key]] = column_of[key]
    has_own_documents = own_documents.max(initial=-1) >= 0
    return RetrievalSet(
        name,
        queries=list(queries.values()),
        corpus=list(corpus.values()),
        grades=grades,
        own_documents=own_documents if has_own_documents else None,
    )
