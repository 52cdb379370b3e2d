"""Ranking tasks: does a model put the sentences that people compared with one query into people's
order?

RankCSE (Liu et al., ACL 2023), Appendix G, https://aclanthology.org/2023.acl-long.771. A sentence
of an STS set is a query if it occurs in more than three scored pairs. The other sentences of its
pairs are its list. Kendall's coefficient (KCC) and NDCG (Järvelin and Kekäläinen, 2002,
https://doi.org/10.1145/582415.582418) compare the order of the cosines with the order of the
scores. A task's number is the mean over its lists.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np
from scipy.stats import kendalltau, rankdata
from sklearn.metrics import ndcg_score

from isotrope.encoder.embed import search_vectors
from isotrope.errors import UserError, nearest
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.results import Result, Results
from isotrope.evaluation.sets.graded_pairs import GradedPairs, embed_pairs
from isotrope.evaluation.similarity import similarities, similarity_of
from isotrope.types import Encoder, Vector

Tau = Literal["a", "b", "c"]
Gain = Literal["linear", "exponential"]
_Score = tuple[str, float]  # a sentence with people's score

# Table 1's lists join pairs from the train and test files of SICK: "all" reads every split of STS-B
# and SICK-R.
# The subsets of STS12 … STS16 form one set in both.
RANKING_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "test": ("test",),
    "all": ("train", "dev", "test"),
}


@dataclass(frozen=True, slots=True)
class RankingChoices:
    """What Appendix G leaves open. The defaults read it literally, and are ours if it says
    nothing.

    A sentence that was scored against the query several times (STS12 repeats many pairs) stays so
    often in its list, or once with the mean score; it then counts once towards ``more_than``. Lists
    of equal scores have no order.
    """

    more_than: int = 3  # scored pairs that a query must exceed
    side: Literal["either", "first", "second"] = "either"  # of a pair, on which the query may stand
    duplicates: Literal["keep", "mean"] = "keep"
    # lists of equal scores are left out, or have 0 in both measures
    constant: Literal["skip", "zero"] = "skip"
    tau: Tau = "b"  # Kendall's tau-b is corrected for ties, tau-a is not; tau-c is Stuart's
    gain: Gain = "linear"  # of NDCG: the score itself, or 2^score − 1 ("exponential")
    at: int | None = None  # NDCG of so many first places; None: of the whole list


def rank_sets(
    encoder: Encoder,
    sets: Mapping[str, Iterable[GradedPairs]],
    choices: RankingChoices = RankingChoices(),
) -> Results:
    """Rank every list of any sets of pairs (`read_pairs`); every distinct sentence is encoded once
    over all sets.

    Gives for each set the means "kendall" and "ndcg" as fractions, the numbers of its "lists", of
    the "pairs" in them and of lists with equal scores ("constant"), and the "choices". "per_list"
    has both measures of each list, in the same order for every model.

    Raises UserError if a set has no list with an order, or a score is negative.
    """
    lists = {name: lists_to_rank(name, pairs, choices) for name, pairs in sets.items()}
    embeddings = embed_pairs(encoder, chain(*lists.values()))
    return {name: _rank_lists(pairs, embeddings, choices) for name, pairs in lists.items()}


def _rank_lists(
    lists: Sequence[GradedPairs], embeddings: Embeddings, choices: RankingChoices
) -> Result:
    """`rank_sets` of one set."""
    constant = 0
    pair_count = 0
    taus = []
    gains = []
    for ranking_list in lists:
        has_order = _has_order(ranking_list)
        constant += not has_order
        if not has_order and choices.constant == "skip":
            continue
        gold = ranking_list.gold
        cosines = ranking_list.similarities(embeddings)
        pair_count += len(gold)
        taus.append(kendall(cosines, gold, choices.tau))
        gains.append(ndcg_of(cosines, gold, choices.gain, choices.at) if has_order else 0.0)

    return {
        "kendall": float(np.mean(taus)),
        "ndcg": float(np.mean(gains)),
        "lists": len(taus),
        "pairs": pair_count,
        "constant": constant,
        "choices": asdict(choices),
        "per_list": {"kendall": taus, "ndcg": gains},
    }


def _has_order(pairs: GradedPairs) -> bool:
    return bool(np.ptp(pairs.gold) > 0)


def lists_to_rank(
    name: str, sets: Iterable[GradedPairs], choices: RankingChoices = RankingChoices()
) -> list[GradedPairs]:
    """`ranking_lists` that can be judged.

    Raises UserError if no list has an order, or a score is negative.
    """
    lists = ranking_lists(sets, choices)
    if not any(_has_order(ranking_list) for ranking_list in lists):
        raise UserError(
            f"{name} has no list to rank: no sentence with more than {choices.more_than} scored "
            "pairs that differ",
            "give pairs that share sentences, or lower more_than",
            code="no-ranking-list",
        )
    lowest = min(float(ranking_list.gold.min()) for ranking_list in lists)
    if lowest < 0:
        raise UserError(
            f"{name}: NDCG of a negative score ({lowest:g})",
            "give scores of 0 or more",
            code="negative-score",
        )
    return lists


def ranking_lists(
    sets: Iterable[GradedPairs], choices: RankingChoices = RankingChoices()
) -> list[GradedPairs]:
    """What there is to rank, in order of first occurrence: a list is the pairs of one query, which
    is their name.
    """
    scores_of = defaultdict[str, list[_Score]](list)  # query -> what it was compared with
    for pairs in sets:
        for first, second, gold in zip(pairs.first, pairs.second, pairs.gold.tolist(), strict=True):
            if choices.side != "second":
                scores_of[first].append((second, gold))

            # A sentence with itself is one pair.
            is_same = choices.side == "either" and first == second
            if choices.side != "first" and not is_same:
                scores_of[second].append((first, gold))

    lists = []
    for query, scores in scores_of.items():
        if choices.duplicates == "mean":
            scores = _mean_scores(scores)
        if len(scores) > choices.more_than:
            sentences, gold_scores = zip(*scores, strict=True)
            queries = [query] * len(scores)
            lists.append(GradedPairs(query, queries, list(sentences), np.array(gold_scores)))
    return lists


def _mean_scores(scores: Sequence[_Score]) -> list[_Score]:
    """Each sentence once, with the mean of its scores."""
    scores_of = defaultdict[str, list[float]](list)
    for sentence, gold in scores:
        scores_of[sentence].append(gold)

    means = []
    for sentence, golds in scores_of.items():
        means.append((sentence, float(np.mean(golds))))
    return means


def kendall(scores: Vector, gold: Vector, tau: Tau = "b") -> float:
    """Kendall's rank correlation of scores (n,) with gold (n,); 0 if one of them is constant.

    tau-a is the surplus of concordant over discordant pairs, (C − D) / (n (n − 1) / 2). See scipy
    for tau-b and tau-c.
    """
    if tau != "a":
        coefficient = float(kendalltau(scores, gold, variant=tau).statistic)
        return 0.0 if np.isnan(coefficient) else coefficient

    first, second = np.triu_indices(len(gold), 1)
    signs = np.sign(scores[first] - scores[second])  # (n (n − 1) / 2,)
    gold_signs = np.sign(gold[first] - gold[second])
    return float(signs @ gold_signs) / len(signs)


def ndcg_of(scores: Vector, gold: Vector, gain: Gain = "linear", at: int | None = None) -> float:
    """Normalised discounted cumulative gain of the order of scores (n,), gold (n,) at least 0; 0
    if no gain exists.

    DCG = Σ gain_r / log₂(r + 1) over the places r = 1 … n (or `at`), divided by that of the best
    order. Sentences of equal score share the mean of their gains: the expectation over the orders
    that they may have.
    """
    gains = gold if gain == "linear" else np.exp2(gold) - 1
    return float(ndcg_score([gains], [scores], k=at))


def case_table(
    encoders: Mapping[str, Encoder],
    query: str,
    candidates: Sequence[str],
    gold: Sequence[float] | None = None,
) -> list[dict[str, Any]]:
    """The rows of a case table for any models and any query, best gold score first, else as given.

    Each row has "sentence", "gold" and "gold_rank" (None without scores), and "models": name →
    "cosine", "rank". Ranks count from 1; equal values share the best, as in Table 12. Models read
    with their prompts for a search.
    """
    rows: list[dict[str, Any]] = [
        {"sentence": candidate, "gold": None, "gold_rank": None, "models": {}}
        for candidate in candidates
    ]
    for name, encoder in encoders.items():
        query_vectors, vectors = search_vectors(encoder, [query], candidates)  # (1, D), (N, D)
        cosines = similarities(query_vectors, vectors, similarity_of(encoder))[0]
        for row, cosine, rank in zip(rows, cosines.tolist(), _ranks(cosines), strict=True):
            row["models"][name] = {"cosine": cosine, "rank": rank}
    if gold is None:
        return rows

    for row, score, rank in zip(rows, gold, _ranks(gold), strict=True):
        row["gold"] = float(score)
        row["gold_rank"] = rank
    return sorted(rows, key=lambda row: row["gold_rank"])


def find_list(lists: Sequence[GradedPairs], query: str) -> GradedPairs:
    """The list of a query; upper and lower case are equal.

    Raises UserError, which names the nearest query, if there is none.
    """
    by_query = {ranking_list.name.lower(): ranking_list for ranking_list in lists}
    if query.lower() not in by_query:
        near = nearest(query, [ranking_list.name for ranking_list in lists])
        raise UserError(
            f"no list has the query {query!r:.80}",
            f"{near}name a sentence that has more than three scored pairs",
            code="unknown-query",
        )
    return by_query[query.lower()]


def _ranks(values: Sequence[float] | Vector) -> list[int]:
    ranks = rankdata(-np.asarray(values), method="min")
    return [int(rank) for rank in ranks]
