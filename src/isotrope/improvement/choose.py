"""Which candidate is the best for these documents?

Documents that choose and documents that judge are different documents. On the choosing ones, all
candidates are compared, and the choice may look at them as often as it likes. Then "keep" and two
finalists alone are measured on the judging ones, once (`isotrope.improvement.judge`). So two tests
are made, however many candidates there were, and however the race went on from one to the next.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from isotrope.evaluation.significance import Comparison
from isotrope.improvement.scores import (
    KEEP,
    DocumentIds,
    TaskScores,
    compare_scores,
    judging_tasks,
    mean_score,
)


@dataclass(frozen=True, slots=True)
class Traits:
    """What counts for a candidate besides its gain."""

    resembles_training: frozenset[str] = frozenset()  # tasks that are like what it was trained on
    keeps_documents: bool = False  # documents keep their vectors
    averaged_with_start: str = ""  # the candidate that averages this one with the given model


@dataclass(frozen=True, slots=True)
class CandidateTable:
    """The scores of "keep" and of some candidates on the same cases."""

    scores: Mapping[str, TaskScores]  # candidate -> its scores
    documents: Mapping[str, DocumentIds]  # task -> the document of each case


def choose_candidate(
    scores: Mapping[str, TaskScores],
    traits: Mapping[str, Traits],
    documents: Mapping[str, DocumentIds],
) -> str:
    """The candidate that is to be judged: the largest gain on the choosing documents, or "keep".

    A candidate must not be significantly worse on the tasks that do not resemble its training. In
    place of the best one, two others are preferred if they gain significantly, and not
    significantly less: the best candidate that keeps the documents' vectors, and the best one's
    average with the given model.

    Args:
        scores: candidate -> its scores; "keep" is one of them, and all have the same cases.
        traits: candidate -> its traits.
        documents: task -> the document of each case.
    """
    means = {name: mean_score(task_scores) for name, task_scores in scores.items()}
    better = [name for name in scores if means[name] > means[KEEP]]
    candidates = [
        name
        for name in sorted(better, key=lambda name: -means[name])
        if not harms_other_tasks(scores[KEEP], scores[name], traits[name], documents)
    ]
    if not candidates:
        return KEEP

    best = candidates[0]
    keeping_documents = next((name for name in candidates if traits[name].keeps_documents), "")
    for alternative in (keeping_documents, traits[best].averaged_with_start):
        if alternative not in candidates or alternative == best:
            continue
        gain = compare_scores(scores[KEEP], scores[alternative], documents)
        difference = compare_scores(scores[alternative], scores[best], documents)
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
    best = [choose_candidate(table.scores, traits, table.documents) for table in (quick, others)]
    return [name for name in best if name != KEEP]


def candidate_gains(
    scores: Mapping[str, TaskScores], documents: Mapping[str, DocumentIds]
) -> dict[str, Comparison]:
    """Candidate -> its comparison with "keep"."""
    return {
        name: compare_scores(scores[KEEP], scores[name], documents)
        for name in scores
        if name != KEEP
    }


def harms_other_tasks(
    before: TaskScores,
    after: TaskScores,
    traits: Traits,
    documents: Mapping[str, DocumentIds],
) -> bool:
    """Whether a candidate that gains is significantly worse on the tasks that do not resemble its
    training, or whether there are no such tasks. False if no task resembles its training.
    """
    if not traits.resembles_training:
        return False  # so its gain is one on other tasks already
    unlike = [task for task in before if task not in traits.resembles_training]
    if not unlike:
        return True
    tasks = judging_tasks(unlike)
    return compare_scores(before, after, documents, tasks).verdict == "worse"
