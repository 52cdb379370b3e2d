"""A few searches as two models answer them, for readers who want to see what a score means."""

from collections.abc import Mapping
from textwrap import shorten
from typing import Any

import numpy as np
import numpy.typing as npt

from isotrope.encoder.embed import Vectors
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.report.space import text_map
from isotrope.report.tables import Marks, Table
from isotrope.store.files import Record
from isotrope.text.permutation import evenly

SHOWN, HITS = 5, 3  # queries, and texts that each finds
MOST = 2_000  # texts that are encoded for it
QUERY, TEXT = 90, 60  # characters that are shown

Hits = npt.NDArray[np.int64]  # (Q, HITS) places of texts, the best first


def searched(
    domain: RetrievalSet, before: tuple[Vectors, Vectors], after: tuple[Vectors, Vectors]
) -> Record:
    """How often each finds a right text first, some queries, and a map if texts moved: ``queries,
    first, shown, map``.

    ``before`` and ``after`` are the vectors that two models give to the domain's queries (Q, D) and
    texts (M, D).
    """
    hits = [first_hits(*vectors, domain.own_documents) for vectors in (before, after)]
    return {
        "queries": len(domain.queries),
        "first": [float(np.mean(_right(domain, found)[:, 0])) for found in hits],
        "shown": examples(domain, *hits),
        "map": None
        if np.array_equal(before[1], after[1])
        else text_map(domain.corpus, before[1], after[1]),
    }


def first_hits(
    queries: Vectors, texts: Vectors, own_documents: npt.NDArray[np.int64] | None = None
) -> Hits:
    """What vectors of queries (Q, D) find first by cosine among those of texts (M, D).

    ``own_documents`` (Q,) are texts that they should not find; -1: none.
    """
    one, all_ = (
        each / np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-12)
        for each in (queries, texts)
    )
    cosines = one @ all_.T  # (Q, M)
    if own_documents is not None:
        rows = np.flatnonzero(own_documents >= 0)
        cosines[rows, own_documents[rows]] = -np.inf
    return np.argsort(-cosines, axis=1, kind="stable")[:, :HITS]


def examples(domain: RetrievalSet, old: Hits, new: Hits) -> Record:
    """What only one of two models answers among its first hits: how many are ``won`` and ``lost``
    of all ``queries``.

    Some of them, evenly spread, are ``told``: gains and losses as they are.
    """
    right = [_right(domain, hits) for hits in (old, new)]
    answered = [marks.any(axis=1) for marks in right]
    changed = np.flatnonzero(answered[0] != answered[1])
    told = []
    for row in changed[evenly(len(changed), SHOWN)]:
        shown: Record = {
            "query": shorten(domain.queries[row], QUERY, placeholder=" …"),
            "before": [],
            "after": [],
        }
        for time, hits, marks in (
            ("before", old[row], right[0][row]),
            ("after", new[row], right[1][row]),
        ):
            for hit, mark in zip(hits, marks, strict=True):
                signs = ("" if hit in old[row] else "→ ") + ("✓ " if mark else "")
                shown[time].append(signs + shorten(domain.corpus[hit], TEXT, placeholder=" …"))
        told.append(shown)
    won = int((answered[1] & ~answered[0]).sum())
    return {"told": told, "won": won, "lost": len(changed) - won, "queries": len(old)}


def examples_table(
    shown: Mapping[str, Any], between: str = "\n", names: tuple[str, str] = ("before", "after")
) -> Table:
    """Three rows a query; ``between`` stands between two hits, and the models have these names."""
    rows = []
    for of in shown["told"]:
        rows.append(["search", of["query"]])
        rows += [
            [name, between.join(of[time])]
            for time, name in zip(("before", "after"), names, strict=True)
        ]
    marks: Marks = {(row, 1): "best" for row in range(0, len(rows), 3)}
    counts = f"{shown['won']:,} only {names[1]}, {shown['lost']:,} only {names[0]}"
    found = f"Of {shown['queries']:,} searches, so many have a right text among their first {HITS}: {counts}."
    notes = [found, "✓ is a right text, → one that was not found before."]
    return Table(
        "Searches that only one of the two models answers",
        ["", ""],
        rows,
        marks,
        words=2,
        notes=notes,
    )


def _right(domain: RetrievalSet, hits: Hits) -> npt.NDArray[np.bool_]:
    """(Q, HITS) whether each hit is relevant."""
    rows = np.arange(len(hits))[:, None]
    return np.asarray(domain.grades[np.broadcast_to(rows, hits.shape), hits].toarray() > 0)
