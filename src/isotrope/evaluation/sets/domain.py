"""What a search is judged on."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xxhash
from scipy.sparse import csr_array

from isotrope.errors import UserError
from isotrope.text.permutation import evenly

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Domain:
    """Q queries, M texts of a corpus, and how relevant each text is to each query."""

    name: str
    queries: list[str]  # (Q,)
    corpus: list[str]  # (M,)
    grades: csr_array  # (Q, M) 0 = not relevant; most sets know 1 alone
    own: bool = False  # the corpus is the queries: none finds itself
    labels: Labels | None = None  # (Q,) classes of the queries, where there are any

    def part(self, count: int) -> "Domain":
        """At most ``count`` queries that find something, what is relevant to them, and as large a
        share of the rest.
        """
        asked = np.flatnonzero(np.diff(self.grades.indptr))
        rows = columns = asked[evenly(len(asked), count)]
        if not self.own:
            found = np.unique(self.grades[rows].indices)
            others = np.setdiff1d(np.arange(len(self.corpus)), found)
            share = evenly(len(others), round(len(others) * len(rows) / len(self.queries)))
            columns = np.union1d(found, others[share])
        queries = [self.queries[row] for row in rows]
        corpus = queries if self.own else [self.corpus[column] for column in columns]
        labels = None if self.labels is None else self.labels[rows]
        return Domain(
            self.name, queries, corpus, csr_array(self.grades[rows][:, columns]), self.own, labels
        )

    def checksum(self) -> str:
        """xxh3 (128 bits, hexadecimal) of the texts, the grades and the classes, in their order."""
        total = xxhash.xxh3_128(json.dumps([self.queries, self.corpus, self.own]).encode())
        labels = np.array([-1]) if self.labels is None else self.labels
        grades = self.grades.sorted_indices()  # their order says nothing
        for part in (grades.indptr, grades.indices, grades.data, labels):
            total.update(np.ascontiguousarray(part, "<f8").tobytes())
        return total.hexdigest()


def same_class(
    name: str,
    queries: list[str],
    labels: Sequence[str],
    corpus: list[str] | None = None,
    others: Sequence[str] = (),
) -> Domain:
    """Texts (Q,) of labelled classes (Q,) that shall find those of their class, in a corpus (M,) or
    among themselves.

    Raises UserError where there is one class only, or where no query has anything to find.
    """
    classes = {label: number for number, label in enumerate(sorted({*labels, *others}))}
    numbers = np.array([classes[label] for label in (*labels, *others)], dtype=np.int64)
    shape = len(numbers), len(classes)
    # in its class: 1
    members = csr_array((np.ones(len(numbers)), (np.arange(len(numbers)), numbers)), shape=shape)
    of_queries = members[: len(labels)]  # (Q, C)
    # (Q, C) @ (C, M)
    grades = of_queries @ (of_queries if corpus is None else members[len(labels) :]).T
    if corpus is None:
        grades.setdiag(0)
        grades.eliminate_zeros()
    if len(classes) < 2 or grades.nnz == 0:
        problem = f"{name}: {len(queries):,} texts of {len(classes):,} class(es)"
        raise UserError(problem, "give at least two classes, and several texts of a class")
    return Domain(
        name, queries, corpus or queries, csr_array(grades), corpus is None, numbers[: len(labels)]
    )


def relevant(
    name: str, queries: dict[str, str], corpus: dict[str, str], judged: dict[tuple[str, str], int]
) -> Domain:
    """Queries and texts by their ids, and the grade of each (query, text) that somebody judged;
    others are 0.
    """
    rows, columns = ({key: place for place, key in enumerate(texts)} for texts in (queries, corpus))
    places = [rows[query] for query, _ in judged], [columns[text] for _, text in judged]
    grades = csr_array(
        (np.array(list(judged.values()), dtype=np.float64), places),
        shape=(len(queries), len(corpus)),
    )
    grades.eliminate_zeros()
    return Domain(name, list(queries.values()), list(corpus.values()), grades)
