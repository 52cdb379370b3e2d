"""Post steps that are judged by the documents they are fitted on, each fitted without these.

A step that is fitted in seconds can be fitted again, once for each fold, on all documents outside
the fold. The documents of the fold then see it as if they had been held out. Those of the first
fold join the documents that choose among quick steps. Those of the other folds took no part in
choosing, so they join the documents that judge, and a small gain is found more often.

Source: Stone, Cross-validatory choice and assessment of statistical predictions (1974),
https://doi.org/10.1111/j.2517-6161.1974.tb00994.x.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from isotrope.errors import UserError
from isotrope.evaluation.embed import Embeddings
from isotrope.improvement.scores import KEEP, CandidateTable
from isotrope.improvement.steps import QUERY_MAP, WHITENINGS, FittedStep, FittingSet
from isotrope.improvement.tasks import TaskSet, tasks_from_documents
from isotrope.text.corpus import Documents
from isotrope.text.permutation import evenly

FOLDS = 3  # the first one chooses, the others judge
QUICK_STEPS = (*WHITENINGS, QUERY_MAP)  # fitted again in seconds

# Fits a step, by its name, to the texts of a fitting set.
FitStep = Callable[[str, FittingSet], FittedStep]


@dataclass(frozen=True)
class Fold:
    """Documents that judge what is fitted on the others."""

    fitting_set: FittingSet  # of the others
    task_set: TaskSet  # of these documents


@dataclass
class CrossFitted:
    """The scores of "keep" and of quick steps on the documents of the folds.

    The documents of the first fold choose among quick steps, and those of the other folds judge.
    """

    choosing: CandidateTable = field(default_factory=CandidateTable)
    judging: CandidateTable = field(default_factory=CandidateTable)


def make_folds(
    documents: Documents, fitting_set: FittingSet, count: int, tasks: Sequence[str]
) -> list[Fold]:
    """Folds of a fitting set, of which ``count`` documents judge.

    There are none if some fold cannot make all of ``tasks``, because a gain must be the mean over
    the same tasks everywhere.
    """
    all_places = np.arange(len(fitting_set.documents))
    places = all_places[evenly(len(all_places), count)]
    folds = []
    for number in range(FOLDS):
        judging = places[number::FOLDS]
        pages = list(documents.each(fitting_set.rows[judging]))
        with suppress(UserError):  # too few documents for any task
            task_set = tasks_from_documents(pages, fitting_set.seed)
            same_tasks = [task for task in task_set.tasks if task.name in tasks]
            if len(same_tasks) == len(tasks):
                others = fitting_set.at(np.setdiff1d(all_places, judging))
                folds.append(Fold(others, TaskSet(same_tasks)))
    return folds if len(folds) == FOLDS else []


def cross_fit(
    embeddings: Embeddings, steps: Mapping[str, str], folds: Sequence[Fold], fit_step: FitStep
) -> CrossFitted:
    """Score the model and each quick step on the documents of all folds. The first fold chooses
    among them, and all others together judge.

    Args:
        embeddings: the given model's vectors of all texts of the folds and their fitting sets.
        steps: candidate -> its step; others than `QUICK_STEPS` are passed over.
        folds: as `make_folds` gives them.
        fit_step: fits a step to a fitting set.
    """
    tables = []
    for fold in folds:
        scores = {KEEP: fold.task_set.score(embeddings)}
        for candidate, step in steps.items():
            if step in QUICK_STEPS:
                moved = fit_step(step, fold.fitting_set).apply(embeddings)
                scores[candidate] = fold.task_set.score(moved)
        tables.append(CandidateTable(scores, fold.task_set.documents))

    choosing, *judging = tables
    return CrossFitted(choosing, reduce(CandidateTable.joined, judging))
