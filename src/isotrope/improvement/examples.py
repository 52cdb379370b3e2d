"""A few searches as two models answer them, for readers who want to see what a score means."""

from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any

import numpy as np
import numpy.typing as npt
from sentence_transformers import SentenceTransformer

from isotrope.encoder.embed import Vectors, cut, search_vectors
from isotrope.evaluation.sets.domain import Domain
from isotrope.improvement.measure import JUDGED_LENGTH
from isotrope.report.tables import Mark, Table
from isotrope.store.records import Record
from isotrope.text.permutation import evenly

SHOWN, HITS = 5, 3  # queries, and texts that each finds
MOST = 2_000  # texts that are encoded for it
QUERY, TEXT = 90, 60  # characters that are shown

Hits = npt.NDArray[np.int64]  # (Q, HITS) places of texts, the best first


def searched(before: SentenceTransformer, after: SentenceTransformer, domain: Domain) -> Record:
    """How often each model finds a right text first, and some queries: ``first``, ``queries``, ``shown``."""
    hits = []
    for model in (before, after):
        with cut(model, JUDGED_LENGTH):
            hits.append(first_hits(*search_vectors(model, domain.queries, domain.corpus), own=domain.own))
    first = [float(np.mean(_right(domain, found)[:, 0])) for found in hits]
    return {"queries": len(domain.queries), "first": first, "shown": examples(domain, *hits)}


def first_hits(queries: Vectors, texts: Vectors, own: bool = False) -> Hits:
    """What vectors of queries (Q, D) find first by cosine among those of texts (M, D); ``own``: not themselves."""
    one, all_ = (each / np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-12) for each in (queries, texts))
    cosines = one @ all_.T  # (Q, M)
    if own:
        np.fill_diagonal(cosines, -np.inf)
    return np.argsort(-cosines, axis=1, kind="stable")[:, :HITS]


def examples(domain: Domain, old: Hits, new: Hits) -> list[Record]:
    """Queries that only one of two models answers among its first hits, evenly spread: gains and losses as they are."""
    right = [_right(domain, hits) for hits in (old, new)]
    changed = np.flatnonzero(right[0].any(axis=1) != right[1].any(axis=1))

    def told(row: int, hits: Hits, correct: npt.NDArray[np.bool_]) -> list[str]:
        marks = [
            ("" if hit in old[row] else "→ ") + ("✓ " if mark else "") for hit, mark in zip(hits, correct, strict=True)
        ]
        return [
            f"{mark}{shorten(domain.corpus[hit], TEXT, placeholder=' …')}"
            for mark, hit in zip(marks, hits, strict=True)
        ]

    return [
        {
            "query": shorten(domain.queries[row], QUERY, placeholder=" …"),
            "before": told(row, old[row], right[0][row]),
            "after": told(row, new[row], right[1][row]),
        }
        for row in changed[evenly(len(changed), SHOWN)]
    ]


def examples_table(shown: Sequence[Mapping[str, Any]], between: str = "\n") -> Table:
    """Three rows a query; ``between`` stands between two hits."""
    rows = []
    for of in shown:
        rows += [["search", of["query"]], *([when, between.join(of[when])] for when in ("before", "after"))]
    marks: dict[tuple[int, int], Mark] = {(row, 1): "best" for row in range(0, len(rows), 3)}
    notes = ["✓ is a right text, → one that was not found before."]
    return Table("Searches that only one of the two models answers", ["", ""], rows, marks, words=2, notes=notes)


def _right(domain: Domain, hits: Hits) -> npt.NDArray[np.bool_]:
    """(Q, HITS) whether each hit is relevant."""
    rows = np.arange(len(hits))[:, None]
    return np.asarray(domain.grades[np.broadcast_to(rows, hits.shape), hits].toarray() > 0)
