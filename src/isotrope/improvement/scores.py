"""Scores of candidates on tasks, and their gains over the model as it was given."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from isotrope.evaluation.document_tasks import HALVES
from isotrope.evaluation.significance import Comparison, compare_documents
from isotrope.types import Vector

KEEP = "keep"  # the model as it was given

TaskScores: TypeAlias = Mapping[str, Vector]  # task -> (Q,) one number a case
DocumentIds: TypeAlias = npt.NDArray[np.int64]  # (Q,) the document that each case comes from


def judging_tasks(tasks: Iterable[str]) -> list[str]:
    """The tasks that count: all but "half → half", unless it is the only one.

    For good models and long documents, labels gave another order than the halves did (docs/log.md).
    """
    names = list(tasks)
    return [name for name in names if name != HALVES] or names


def mean_score(scores: TaskScores) -> float:
    """The mean over the judging tasks of the mean over their cases."""
    return float(np.mean([np.mean(scores[task]) for task in judging_tasks(scores)]))


def compare_scores(
    before: TaskScores,
    after: TaskScores,
    documents: Mapping[str, DocumentIds],
    tasks: Iterable[str] | None = None,
) -> Comparison:
    """Compare two candidates on the same cases: a t interval over documents.

    Args:
        before: the scores of one candidate.
        after: those of another one.
        documents: task -> the document of each case; if a task is missing, its cases are documents.
        tasks: the tasks that count; None: the judging ones.
    """
    names = judging_tasks(before) if tasks is None else list(tasks)
    document_ids = {name: documents.get(name, np.arange(len(before[name]))) for name in names}
    return compare_documents(
        {name: before[name] for name in names},
        {name: after[name] for name in names},
        document_ids,
    )
