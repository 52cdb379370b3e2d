"""What judges the candidates: tasks made from held-out documents, or the user's own labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isotrope.choice.candidates import SPAN
from isotrope.choice.measure import Task
from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import make_document_tasks
from isotrope.evaluation.own_task import OwnTask
from isotrope.evaluation.sets.domain import Domain
from isotrope.text.document_rows import Document

TITLED = 0.5  # of the documents: with fewer titles, nothing is trained on titles


@dataclass(frozen=True, slots=True)
class Judges:
    """The tasks.

    Attributes:
        tasks: what judges.
        titled: whether most documents have a title.
        told: a line for each task.
    """

    tasks: Sequence[Task]
    titled: bool
    told: list[str]


def judges_of(held_out: Sequence[Document], domain: Domain | None, seed: int) -> Judges:
    """Tasks from held-out documents; with ``domain``, the user's labels alone.

    Raises:
        UserError: too few documents are long enough for any task.
    """
    titled = sum(bool(document.title) for document in held_out) >= TITLED * len(held_out)
    if domain is not None:
        own = OwnTask(domain)
        return Judges(
            [own], titled, [f"{own.name}: your own judgements, nDCG@10 of {len(own.domain.queries):,} queries"]
        )
    made = make_document_tasks(held_out, seed)
    if not made.tasks:
        why = next((line for line in made.told if line.startswith(SPAN)), made.told[0])
        problem = f"no task can be made from {len(held_out):,} held-out documents ({why})"
        raise UserError(problem, "give more documents of 12 words or more, or your own judgements (--domain)")
    return Judges(made.tasks, titled, made.told)
