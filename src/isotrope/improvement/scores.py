"""Scores of candidates on tasks, and their gains over the model as it was given."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from isotrope.evaluation.document_tasks import HALVES
from isotrope.evaluation.significance import Comparison, compare_documents
from isotrope.types import Vector

KEEP = "keep"  # the model as it was given

TaskScores: TypeAlias = Mapping[str, Vector]  # task -> (Q,) one number a case
# Candidate -> BM25's share -> the scores of a search that adds BM25 to its cosines.
SearchScores: TypeAlias = dict[str, dict[float, TaskScores]]
DocumentIds: TypeAlias = npt.NDArray[np.int64]  # (Q,) the document that each case comes from
TaskDocuments: TypeAlias = Mapping[str, DocumentIds]  # by task


def judging_tasks(tasks: Iterable[str]) -> list[str]:
    """The tasks that count: all but "half → half", unless it is the only one.

    For good models and long documents, labels gave another order than the halves did (docs/log.md).
    """
    names = list(tasks)
    return [name for name in names if name != HALVES] or names


def mean_score(scores: TaskScores | Mapping[str, float]) -> float:
    """The mean over the judging tasks of the mean over their cases."""
    return float(np.mean([np.mean(scores[task]) for task in judging_tasks(scores)]))


@dataclass
class CandidateTable:
    """The scores of "keep" and of some candidates on the same cases."""

    scores: Mapping[str, TaskScores] = field(default_factory=dict)  # by candidate
    # if a task is missing, its cases are documents
    documents: TaskDocuments = field(default_factory=dict)

    def compare(self, after: str, before: str = KEEP, tasks: Sequence[str] = ()) -> Comparison:
        """Compare two candidates on some tasks, or on all, by a t interval over documents."""
        old = self.scores[before]
        judging = {task: old[task] for task in judging_tasks(tasks or old)}
        documents = {
            task: self.documents.get(task, np.arange(len(cases))) for task, cases in judging.items()
        }
        return compare_documents(judging, self.scores[after], documents)

    def gains(self) -> dict[str, Comparison]:
        """Candidate -> its comparison with "keep"."""
        return {name: self.compare(name) for name in self.scores if name != KEEP}

    def joined(self, other: "CandidateTable") -> "CandidateTable":
        """The candidates of both tables on the cases of both, which have no document in common."""
        first_free = 1 + max(int(ids.max()) for ids in self.documents.values())
        documents = {
            task: np.concatenate([ids, first_free + other.documents[task]])
            for task, ids in self.documents.items()
        }
        scores = {}
        for name in self.scores:
            if name in other.scores:
                scores[name] = _join_cases(self.scores[name], other.scores[name])
        return CandidateTable(scores, documents)


def _join_cases(first: TaskScores, second: TaskScores) -> TaskScores:
    return {task: np.concatenate([cases, second[task]]) for task, cases in first.items()}
