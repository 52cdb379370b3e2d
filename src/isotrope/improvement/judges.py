"""What judges the candidates: tasks made from held-out documents, or the user's own labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import HALVES, are_short, make_document_tasks, usable_documents
from isotrope.evaluation.retrieval import OwnTask
from isotrope.evaluation.sets.domain import Domain
from isotrope.improvement.measure import Task
from isotrope.text.collection import Documents
from isotrope.text.document_rows import Document
from isotrope.text.words import words_of

TITLED = 0.5  # of the documents: with fewer titles, nothing is trained on titles
HELD_OUT, FEWEST_HELD_OUT = 300, 50  # documents that judge
MOST_HELD_OUT, LONG = 1000, 100  # where documents have fewer than 100 words, more of them cost the same time


class Judge(Task, Protocol):
    """A task that can be made smaller."""

    @property
    def size(self) -> int:
        """Queries."""

    def part(self, count: int) -> Judge:
        """The task with at most ``count`` queries."""


@dataclass(frozen=True, slots=True)
class Judges:
    """The tasks.

    Attributes:
        tasks: what judges.
        titled: whether most documents have a title.
        short: whether most documents are short.
        told: a line for each task.
    """

    tasks: Sequence[Judge]
    titled: bool
    short: bool
    told: list[str]


def held_out_count(documents: Documents, seed: int) -> int:
    """How many documents to hold out: so many that 300 of them can be in a task, or up to 1,000 shorter ones.

    It is a fifth of all at most. Of few documents, it may be half.
    """
    most = max(len(documents) // 5, min(len(documents) // 2, 2 * FEWEST_HELD_OUT))
    first = min(HELD_OUT, most)
    _, rows = documents.split(first, seed)
    some = usable_documents(list(documents.each(rows)), HELD_OUT)
    return min(most, first * _judging_count(some) // max(1, len(some)))


def _judging_count(documents: Sequence[Document]) -> int:
    """How many documents like these are in a task."""
    words = [min(LONG, len(words_of(" ".join(document.paragraphs))[0])) for document in documents]
    return min(MOST_HELD_OUT, round(HELD_OUT * LONG / max(1.0, float(np.mean(words or [1])))))


def judges_of(held_out: Sequence[Document], domain: Domain | None, seed: int) -> Judges:
    """Tasks from held-out documents; with ``domain``, the user's labels alone.

    "half → half" is left out where two others judge.

    Raises:
        UserError: too few documents are long enough for any task.
    """
    titled = sum(bool(document.title) for document in held_out) >= TITLED * len(held_out)
    short = are_short(held_out)
    if domain is not None:
        own = OwnTask(domain)
        return Judges([own], titled, short, [f"{own.name}: your own judgements, nDCG@10 of {own.size:,} queries"])
    made = make_document_tasks(held_out, seed, most=_judging_count(held_out))
    if not made.tasks:
        why = next((line for line in made.told if line.startswith(HALVES)), made.told[0])
        problem = f"no task can be made from {len(held_out):,} held-out documents ({why})"
        raise UserError(problem, "give more or longer documents, or your own judgements (--domain)")
    if len(made.tasks) <= 2:
        return Judges(made.tasks, titled, short, made.told)
    told = [line for line in made.told if not line.startswith(f"{HALVES}:")]
    return Judges([task for task in made.tasks if task.name != HALVES], titled, short, told)
