"""Which candidate is the best for these documents?

Documents that choose and documents that judge are different documents. On the choosing ones, all
candidates are compared, and the choice may look at them as often as it likes. Then "keep" and two
finalists alone are measured on the judging ones, once (`isotrope.improvement.judge`). So two tests
are made, however many candidates there were, and however the race went on from one to the next.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from isotrope.improvement.scores import KEEP, CandidateTable, mean_score


@dataclass(frozen=True, slots=True)
class Traits:
    """What counts for a candidate besides its gain."""

    resembles_training: frozenset[str] = frozenset()  # tasks that are like what it was trained on
    keeps_documents: bool = False  # documents keep their vectors
    averaged_with_start: str = ""  # the candidate that averages this one with the given model


def choose_candidate(table: CandidateTable, traits: Mapping[str, Traits]) -> str:
    """The candidate that is to be judged: the largest gain on the choosing documents, or "keep".

    A candidate must not be significantly worse on the tasks that do not resemble its training. In
    place of the best one, two others are preferred if they gain significantly, and not
    significantly less: the best candidate that keeps the documents' vectors, and the best one's
    average with the given model.

    Args:
        table: the scores of "keep" and of the candidates.
        traits: candidate -> its traits.
    """
    means = {name: mean_score(scores) for name, scores in table.scores.items()}
    candidates = []
    for name in sorted(means, key=lambda name: -means[name]):
        if means[name] > means[KEEP] and not harms_other_tasks(table, name, traits[name]):
            candidates.append(name)
    if not candidates:
        return KEEP

    best = candidates[0]
    keeping_documents = next((name for name in candidates if traits[name].keeps_documents), "")
    for alternative in (keeping_documents, traits[best].averaged_with_start):
        if alternative not in candidates or alternative == best:
            continue
        gain = table.compare(alternative)
        difference = table.compare(best, before=alternative)
        if gain.verdict == "better" and difference.verdict != "better":
            return alternative
    return best


def choose_finalists(
    quick: CandidateTable, others: CandidateTable, traits: Mapping[str, Traits]
) -> list[str]:
    """The candidates that are to be judged: the best quick step, and the best of all others.

    More documents see quick steps, so each kind is compared among itself. A candidate that gains
    nothing is no finalist.
    """
    best = [choose_candidate(table, traits) for table in (quick, others)]
    return [name for name in best if name != KEEP]


def harms_other_tasks(table: CandidateTable, name: str, traits: Traits) -> bool:
    """Whether a candidate that gains is significantly worse on the tasks that do not resemble its
    training, or whether there are no such tasks. False if no task resembles its training.
    """
    if not traits.resembles_training:
        return False  # so its gain is one on other tasks already
    unlike = [task for task in table.scores[KEEP] if task not in traits.resembles_training]
    if not unlike:
        return True
    return table.compare(name, tasks=unlike).verdict == "worse"
