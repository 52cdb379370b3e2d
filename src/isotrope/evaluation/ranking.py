"""Ranking tasks: does a model put the sentences that people compared with one query into people's order?

RankCSE (Liu et al., ACL 2023), Appendix G, https://aclanthology.org/2023.acl-long.771. A sentence of an STS set is a
query if it occurs in more than three scored pairs. The other sentences of its pairs are its list. Kendall's coefficient
(KCC) and NDCG (Järvelin and Kekäläinen, 2002, https://doi.org/10.1145/582415.582418) compare the order of the cosines
with the order of the scores. A task's number is the mean over its lists. The authors' code is not public. What the
appendix leaves open is in `RankingChoices`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any, Literal

import numpy as np
from scipy.stats import kendalltau, rankdata
from sklearn.metrics import ndcg_score

from isotrope.encoder.embed import search_vectors
from isotrope.errors import UserError
from isotrope.evaluation.embed import Known, row_cosines
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.types import Encoder, Vector

Tau = Literal["a", "b", "c"]
Gain = Literal["linear", "exponential"]

# Table 1's lists join pairs from the train and test files of SICK: "all" reads every split of STS-B and SICK-R.
# The subsets of STS12 … STS16 form one set in both.
RANKING_SETTINGS: Mapping[str, tuple[str, ...]] = {"test": ("test",), "all": ("train", "dev", "test")}


@dataclass(frozen=True, slots=True)
class RankingChoices:
    """What Appendix G leaves open. The defaults read it literally, and are ours where it says nothing.

    Attributes:
        duplicates: a sentence that was scored against the query several times stays so often in its list ("keep"), or
            once with the mean score ("mean"; it then counts once towards `more_than`). STS12 repeats many pairs.
        constant: lists whose scores are all equal have no order: left out ("skip"), or 0 in both measures ("zero").
    """

    more_than: int = 3  # scored pairs that a query must exceed
    side: Literal["either", "first", "second"] = "either"  # of a pair, on which the query may stand
    duplicates: Literal["keep", "mean"] = "keep"
    constant: Literal["skip", "zero"] = "skip"
    tau: Tau = "b"  # Kendall's tau-b is corrected for ties, tau-a is not; tau-c is Stuart's
    gain: Gain = "linear"  # of NDCG: the score itself, or 2^score − 1 ("exponential")
    at: int | None = None  # NDCG of so many first places; None: of the whole list


def rank_sets(
    encoder: Encoder,
    sets: Mapping[str, Iterable[Pairs]],
    choices: RankingChoices = RankingChoices(),
) -> dict[str, Any]:
    """Rank every list of any sets of pairs (`read_pairs`); every distinct sentence is encoded once over all sets.

    Gives for each set the means "kendall" and "ndcg" as fractions. "lists" is the number of lists, "pairs" the number
    of pairs in them, "constant" the number of lists with equal scores. "choices" are the choices. "per_list" has both
    measures of each list, in the same order for every model. `isotrope.evaluation.significance.compare_means` takes it.

    Raises UserError where a set has no list with an order, or a score is negative.
    """
    lists = {name: lists_to_rank(name, pairs, choices) for name, pairs in sets.items()}
    known = Known.of(encoder, (s for some in lists.values() for one in some for s in (*one.first, *one.second)))
    return {name: _score(some, known, choices) for name, some in lists.items()}


def lists_to_rank(name: str, sets: Iterable[Pairs], choices: RankingChoices = RankingChoices()) -> list[Pairs]:
    """As `ranking_lists`, where at least one list has an order, and no score is negative."""
    some = ranking_lists(sets, choices)
    if not any(np.ptp(one.gold) > 0 for one in some):
        raise UserError(
            f"{name} has no list to rank: no sentence with more than {choices.more_than} scored pairs that differ",
            "give pairs that share sentences, or lower more_than",
        )
    if (lowest := min(float(one.gold.min()) for one in some)) < 0:
        raise UserError(f"{name}: NDCG of a negative score ({lowest:g})", "give scores of 0 or more")
    return some


def ranking_lists(sets: Iterable[Pairs], choices: RankingChoices = RankingChoices()) -> list[Pairs]:
    """What there is to rank, in order of first occurrence: a list is the pairs of one query, which is their name."""
    found: dict[str, list[tuple[str, float]]] = {}
    for pairs in sets:
        for first, second, gold in zip(pairs.first, pairs.second, pairs.gold.tolist(), strict=True):
            if choices.side != "second":
                found.setdefault(first, []).append((second, gold))
            if choices.side == "second" or (choices.side == "either" and first != second):  # with itself: one pair
                found.setdefault(second, []).append((first, gold))
    lists = []
    for query, scored in found.items():
        sentences, golds = [sentence for sentence, _ in scored], np.array([gold for _, gold in scored])
        if choices.duplicates == "mean":
            once = list(dict.fromkeys(sentences))
            sentences, golds = once, np.array([golds[[s == one for s in sentences]].mean() for one in once])
        if len(sentences) > choices.more_than:
            lists.append(Pairs(query, [query] * len(sentences), sentences, golds))
    return lists


def kendall(scores: Vector, gold: Vector, tau: Tau = "b") -> float:
    """Kendall's rank correlation of scores (n,) with gold (n,); 0 where one of them is constant.

    C pairs are concordant, D are discordant, and m is the smaller number of distinct values. tau-a is
    (C − D) / (n (n − 1) / 2). tau-b is (C − D) / √(pairs not tied in scores · pairs not tied in gold). tau-c is
    (C − D) · 2m / (n² (m − 1)).
    """
    if tau != "a":
        found = kendalltau(scores, gold, variant=tau).statistic
        return 0.0 if np.isnan(found) else float(found)
    above = np.triu_indices(len(gold), 1)
    x, y = (np.sign(values[:, None] - values[None, :])[above] for values in (scores, gold))  # (n (n − 1) / 2,)
    return float(x @ y) / len(x)


def ndcg_of(scores: Vector, gold: Vector, gain: Gain = "linear", at: int | None = None) -> float:
    """Normalised discounted cumulative gain of the order of scores (n,), gold (n,) at least 0; 0 where no gain exists.

    DCG = Σ gain_r / log₂(r + 1) over the places r = 1 … n (or `at`), divided by that of the best order. Sentences of
    equal score share the mean of their gains: the expectation over the orders that they may have.
    """
    gains = gold if gain == "linear" else np.exp2(gold) - 1
    return float(ndcg_score([gains], [scores], k=at))


def case_table(
    encoders: Mapping[str, Encoder], query: str, candidates: Sequence[str], gold: Sequence[float] | None = None
) -> list[dict[str, Any]]:
    """The rows of a case table for any models and any query, best gold score first, else as given.

    Each row has "sentence", "gold" and "gold_rank" (None without scores), and "models": name → "cosine", "rank". Ranks
    count from 1; equal values share the best, as in Table 12. Models read with their prompts for a search.
    """
    cosines = {}
    for name, encoder in encoders.items():
        asked, found = search_vectors(encoder, [query], candidates)  # (1, D), (N, D)
        cosines[name] = row_cosines(np.repeat(asked, len(found), axis=0), found)
    ranks = {name: _ranks(values) for name, values in cosines.items()}
    people = None if gold is None else _ranks(np.asarray(gold, dtype=np.float64))
    order = range(len(candidates)) if people is None else np.argsort(people, kind="stable")
    return [
        {
            "sentence": candidates[i],
            "gold": None if gold is None else float(gold[i]),
            "gold_rank": None if people is None else int(people[i]),
            "models": {name: {"cosine": float(cosines[name][i]), "rank": int(ranks[name][i])} for name in encoders},
        }
        for i in order
    ]


def find_list(lists: Sequence[Pairs], query: str) -> Pairs:
    """The list of a query, its white space and case not minded.

    Raises UserError where no list has it; the remedy names the nearest queries.
    """
    named = {" ".join(one.name.lower().split()): one for one in lists}
    plain = " ".join(query.lower().split())
    if plain not in named:
        near = " or ".join(repr(named[each].name) for each in get_close_matches(plain, named, n=3, cutoff=0.0))
        raise UserError(f"no list has the query {query!r:.80}", f"try {near or 'others'}")
    return named[plain]


def _ranks(values: Vector) -> Vector:
    return np.asarray(rankdata(-values, method="min"))


def _score(lists: list[Pairs], known: Known, choices: RankingChoices) -> dict[str, Any]:
    ordered = [one for one in lists if np.ptp(one.gold) > 0]
    kept = lists if choices.constant == "zero" else ordered
    per_list: dict[str, list[float]] = {"kendall": [], "ndcg": []}
    for one in kept:
        flat, cosines = np.ptp(one.gold) == 0, known.cosines(one)
        per_list["kendall"].append(0.0 if flat else kendall(cosines, one.gold, choices.tau))
        per_list["ndcg"].append(0.0 if flat else ndcg_of(cosines, one.gold, choices.gain, choices.at))
    return {
        **{name: float(np.mean(values)) for name, values in per_list.items()},
        "lists": len(kept),
        "pairs": sum(map(len, kept)),
        "constant": len(lists) - len(ordered),
        "choices": asdict(choices),
        "per_list": per_list,
    }
