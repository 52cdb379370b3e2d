"""One query, its sentences, and where each model puts them: the case tables of RankCSE (Tables 1 and 12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from isotrope.encoder.embed import search_vectors
from isotrope.errors import UserError
from isotrope.evaluation.embed import row_cosines
from isotrope.evaluation.ranking import RankingList
from isotrope.types import Encoder, Vector


def case_table(
    encoders: Mapping[str, Encoder], query: str, candidates: Sequence[str], gold: Sequence[float] | None = None
) -> list[dict[str, Any]]:
    """The rows of a case table for any models and any query, best gold score first, else as given.

    A model with prompts for queries and documents reads the query and its candidates with them.

    Each row has "sentence", "gold" and "gold_rank" (None without scores), and "models": name → "cosine", "rank". Ranks
    count from 1; equal values share the best, as in Table 12. `ranking_lists` finds the queries of a set of pairs.

    Raises UserError where there is no candidate, or not one score a candidate.
    """
    if not candidates:
        raise UserError(f"no sentence to compare with {query!r:.60}", "give at least one candidate")
    if gold is not None and len(gold) != len(candidates):
        raise UserError(f"{len(gold)} scores for {len(candidates)} candidates", "give one score a candidate")
    cosines = {name: _cosines(encoder, query, candidates) for name, encoder in encoders.items()}
    ranks = {name: _ranks(values) for name, values in cosines.items()}
    scores = None if gold is None else np.asarray(gold, dtype=np.float64)
    people = None if scores is None else _ranks(scores)
    order = range(len(candidates)) if people is None else np.argsort(people, kind="stable")
    return [
        {
            "sentence": candidates[i],
            "gold": None if scores is None else float(scores[i]),
            "gold_rank": None if people is None else int(people[i]),
            "models": {name: {"cosine": float(cosines[name][i]), "rank": int(ranks[name][i])} for name in encoders},
        }
        for i in order
    ]


def _cosines(encoder: Encoder, query: str, candidates: Sequence[str]) -> Vector:
    asked, found = search_vectors(encoder, [query], candidates)  # (1, D), (N, D)
    return row_cosines(np.repeat(asked, len(found), axis=0), found)


def find_list(lists: Sequence[RankingList], query: str) -> RankingList:
    """The list of a query, its white space and case not minded.

    Raises UserError where no list has it; the remedy names the nearest queries.
    """
    named = {_folded(one.query): one for one in lists}
    if _folded(query) not in named:
        near = get_close_matches(_folded(query), named, n=3, cutoff=0.0)
        raise UserError(
            f"no list has the query {query!r:.80}", f"try {' or '.join(repr(named[n].query) for n in near) or 'others'}"
        )
    return named[_folded(query)]


def _folded(sentence: str) -> str:
    return " ".join(sentence.lower().split())


def _ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    return np.asarray(rankdata(-values, method="min"), dtype=np.int64)
