"""Post steps that are judged by the documents they are fitted on, each fitted without these.

A step that is fitted in seconds can be fitted again, once for each fold, on all documents outside
the fold. The documents of the fold then see it as if they had been held out. Those of the first fold
join the documents that choose among quick steps. Those of the other folds took no part in choosing,
so they join the documents that judge, and a small gain is found more often.

Source: Stone, Cross-validatory choice and assessment of statistical predictions (1974),
https://doi.org/10.1111/j.2517-6161.1974.tb00994.x.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from isotrope.errors import UserError
from isotrope.evaluation.embed import Embeddings
from isotrope.improvement.scores import KEEP, DocumentIds, TaskScores
from isotrope.improvement.steps import QUERY_MAP, WHITENINGS, FittedStep, FittingSet
from isotrope.improvement.tasks import TaskSet, tasks_from_documents
from isotrope.text.corpus import Documents
from isotrope.text.permutation import evenly

FOLDS = 3  # the first one chooses, the others judge
QUICK_STEPS = (*WHITENINGS, QUERY_MAP)  # fitted again in seconds

# Fits a step, by its name, to the texts of a fitting set; None: nobody teaches it.
FitStep = Callable[[str, FittingSet], FittedStep]


@dataclass(frozen=True)
class Fold:
    """Documents that judge what is fitted on the others."""

    fitting_set: FittingSet  # of the others
    task_set: TaskSet  # of these documents


@dataclass
class FoldScores:
    """The scores of "keep" and of quick steps on the documents of some folds."""

    scores: dict[str, TaskScores] = field(default_factory=dict)  # by candidate
    documents: dict[str, DocumentIds] = field(default_factory=dict)  # task -> of each case

    @classmethod
    def of(
        cls, task_sets: Sequence[TaskSet], scores: Mapping[str, Sequence[TaskScores]]
    ) -> "FoldScores":
        """The scores of each candidate, one after the other for each fold."""
        return cls(
            {name: join_scores(parts) for name, parts in scores.items()},
            join_documents([task_set.documents for task_set in task_sets]),
        )


@dataclass
class CrossFitted:
    """The scores of "keep" and of quick steps on the documents of the folds.

    The documents of the first fold choose among quick steps, and those of the other folds judge.
    """

    choosing: FoldScores = field(default_factory=FoldScores)
    judging: FoldScores = field(default_factory=FoldScores)


def make_folds(
    documents: Documents, fitting_set: FittingSet, count: int, tasks: Sequence[str]
) -> list[Fold]:
    """Folds of a fitting set, of which ``count`` documents judge.

    There are none if some fold cannot make all of ``tasks``, because a gain must be the mean over
    the same tasks everywhere.
    """
    places = np.array(evenly(len(fitting_set.documents), count), dtype=np.int64)
    folds = []
    for number in range(FOLDS):
        judging = places[number::FOLDS]
        others = np.setdiff1d(np.arange(len(fitting_set.documents)), judging)
        pages = list(documents.each(fitting_set.rows[judging]))
        with suppress(UserError):  # too few documents for any task
            task_set = tasks_from_documents(pages, fitting_set.seed)
            kept = [task for task in task_set.tasks if task.name in tasks]
            if len(kept) == len(tasks):
                folds.append(Fold(fitting_set.at(others), TaskSet(kept)))
    return folds if len(folds) == FOLDS else []


def cross_fit(
    embeddings: Embeddings, steps: Mapping[str, str], folds: Sequence[Fold], fit_step: FitStep
) -> CrossFitted:
    """Score the model and each quick step on the documents of all folds.

    Args:
        embeddings: the given model's vectors of all texts of the folds and their fitting sets.
        steps: candidate -> its step; others than `QUICK_STEPS` are passed over.
        folds: as `make_folds` gives them.
        fit_step: fits a step to a fitting set.
    """
    quick = {name: step for name, step in steps.items() if step in QUICK_STEPS}
    parts = defaultdict[str, list[TaskScores]](list)  # by candidate, in the order of the folds
    for fold in folds:
        parts[KEEP].append(score_tasks(fold.task_set, embeddings))
        for candidate, step in quick.items():
            moved = fit_step(step, fold.fitting_set).apply(embeddings)
            parts[candidate].append(score_tasks(fold.task_set, moved))

    task_sets = [fold.task_set for fold in folds]
    return CrossFitted(
        choosing=FoldScores.of(task_sets[:1], {n: scores[:1] for n, scores in parts.items()}),
        judging=FoldScores.of(task_sets[1:], {n: scores[1:] for n, scores in parts.items()}),
    )


def score_tasks(task_set: TaskSet, embeddings: Embeddings) -> TaskScores:
    """The scores of a model on tasks."""
    return {task.name: task.score(embeddings) for task in task_set.tasks}


def join_scores(parts: Sequence[TaskScores]) -> TaskScores:
    """The cases of several parts, one after the other."""
    return {task: np.concatenate([part[task] for part in parts]) for task in parts[0]}


def join_documents(parts: Sequence[Mapping[str, DocumentIds]]) -> dict[str, DocumentIds]:
    """The documents of the cases of several parts, which have no document in common."""
    joined: dict[str, list[DocumentIds]] = {task: [] for task in parts[0]}
    first_free = 0
    for part in parts:
        for task, documents in part.items():
            joined[task].append(first_free + documents)
        first_free += 1 + max(int(documents.max()) for documents in part.values())
    return {task: np.concatenate(documents) for task, documents in joined.items()}
