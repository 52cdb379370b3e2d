"""What candidates are compared by: tasks made from held-out documents, or the user's own labels."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy.sparse import csr_array

from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import HALVES, DocumentTask, make_document_tasks
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.search import Search, encoder_search, search_with
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.labels import Labels, in_words
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.improvement.scores import DocumentIds, TaskDocuments, TaskScores
from isotrope.improvement.steps import FittingSet
from isotrope.text.bm25 import Bm25Index
from isotrope.text.corpus import Document
from isotrope.text.permutation import evenly

Task: TypeAlias = DocumentTask | Labels

JUDGED_LENGTH = 128  # tokens of a text that are read while candidates are compared
FEWEST_IN_TASK = 12  # documents
FEWEST_SPLIT_LABELS = 60  # labels: of fewer, all judge, and tasks from documents choose


@dataclass(frozen=True)
class TaskSet:
    """The tasks that choose, or those that judge."""

    tasks: Sequence[Task]
    notes: list[str] = field(default_factory=list)  # a line for each task

    @property
    def documents(self) -> TaskDocuments:
        """The document of each case, for tasks that are made from documents."""
        return {task.name: task.documents for task in self.tasks if isinstance(task, DocumentTask)}

    @property
    def searches(self) -> list[DocumentTask | RetrievalSet]:
        """The tasks in which queries search a corpus; graded pairs search nothing."""
        return [task for task in self.tasks if not isinstance(task, GradedPairs)]

    @property
    def words(self) -> int:
        """Words that are read to score one model."""
        return count_words(text for task in self.tasks for text in task.texts)

    def line(self, use: str) -> str:
        """All notes in one line, after what the tasks are for."""
        return f"{use}: {'; '.join(self.notes)}"

    @cached_property
    def searches_by_words(self) -> dict[str, Search]:
        """Task -> BM25's search of its corpus."""
        return {task.name: Bm25Index.of(task.corpus).search(task.queries) for task in self.searches}

    def score(self, embeddings: Embeddings) -> TaskScores:
        """The scores of a model."""
        return {task.name: task.score(embeddings) for task in self.tasks}

    def score_hybrid(self, embeddings: Embeddings, bm25_share: float) -> TaskScores:
        """The scores of a search that adds BM25 to a model's cosines."""
        scores = {}
        for task in self.searches:
            by_model = encoder_search(embeddings, task.queries, task.corpus)
            search = search_with(
                [by_model, self.searches_by_words[task.name]], [1 - bm25_share, bm25_share]
            )
            scores[task.name] = task.score_search(search)
        return scores


def tasks_from_documents(documents: Sequence[Document], seed: int) -> TaskSet:
    """Tasks from documents; "half → half" is left out if there are two others.

    UserError if too few documents are long enough for any task.
    """
    fewest = min(FEWEST_IN_TASK, len(documents))
    tasks, notes = make_document_tasks(documents, seed, most=len(documents), fewest=fewest)
    if not tasks:
        reason = next((note for note in notes if note.startswith(HALVES)), notes[0])
        raise UserError(
            f"no task can be made from {len(documents):,} held-out documents ({reason})",
            "give more or longer documents, or labels of your own (--labels)",
            "too-few-documents",
        )
    if len(tasks) > 2:
        tasks = [task for task in tasks if task.name != HALVES]
        notes = [note for note in notes if not note.startswith(f"{HALVES}:")]
    return TaskSet(tasks, notes)


def split_labels(labels: Labels, choosing: int, judging: int) -> tuple[TaskSet, TaskSet]:
    """Labels that choose, with a like share of the corpus; and at most ``judging`` others."""
    chooses = labels.part(choosing)
    if isinstance(labels, GradedPairs):
        places = evenly(labels.size, choosing)
        others: Labels = labels.rows(np.delete(np.arange(labels.size), places))
    else:
        answerable = np.flatnonzero(np.diff(labels.grades.indptr))
        places = evenly(len(answerable), choosing)
        others = _queries(labels, np.delete(answerable, places))
    return label_tasks(chooses, "choose"), label_tasks(others.part(judging), "judge")


def label_tasks(labels: Labels, role: str) -> TaskSet:
    """All of these labels as the only task."""
    return TaskSet([labels], [f"{labels.name}: your own labels {role}, {in_words(labels)}"])


def _queries(labels: RetrievalSet, rows: DocumentIds) -> RetrievalSet:
    """Some of the queries, with the whole corpus."""
    return RetrievalSet(
        labels.name,
        [labels.queries[row] for row in rows],
        labels.corpus,
        csr_array(labels.grades[rows]),
        None if labels.own_documents is None else labels.own_documents[rows],
    )


def judge_in_words(tasks: Sequence[Task], cases: int) -> tuple[str, str]:
    """What judges and what it measures, as a `Verdict` says it."""
    task = tasks[0]
    if isinstance(task, GradedPairs):
        return f"{cases:,} graded pairs of {task.name}", "Spearman × 100"
    if isinstance(task, RetrievalSet):
        return f"{cases:,} queries of {task.name}", "nDCG@10 × 100"
    measure = "MRR@10 × 100" if len(tasks) == 1 else f"mean of {len(tasks)} tasks × 100"
    return f"{cases:,} of your own documents", measure


def texts_to_encode(
    tasks: Iterable[Task], fitting_set: FittingSet | None = None, steps: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """All queries and all other texts that are encoded to score one encoder on these tasks, and to
    fit these steps, each text once.
    """
    queries: list[str] = []
    documents: list[str] = []
    if fitting_set is not None:
        queries, documents = map(list, fitting_set.texts(steps))
    for task in tasks:
        if isinstance(task, GradedPairs):  # both sides of a graded pair are read in one way
            documents += task.texts
        else:
            queries += task.queries
            documents += task.corpus
    return list(dict.fromkeys(queries)), list(dict.fromkeys(documents))


def count_words(texts: Iterable[str]) -> int:
    """Approximate number of words that a model reads of these texts."""
    return sum(min(len(text.split()), JUDGED_LENGTH) for text in texts)
