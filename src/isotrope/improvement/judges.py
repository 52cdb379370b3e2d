"""What judges the candidates: tasks made from held-out documents, or the user's own labels.

What a model knew before, general similarity, is looked at too. It has no part in the choice.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import (
    HALVES,
    DocumentTask,
    are_short,
    make_document_tasks,
    usable_documents,
)
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.labels import Labels, in_words
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.evaluation.sets.senteval import load_sts
from isotrope.evaluation.sets.similarity import similarity_pairs
from isotrope.evaluation.significance import compare
from isotrope.evaluation.sts import SimilaritySets, main_pairs, similarities
from isotrope.improvement.decide import TaskScores, judging
from isotrope.improvement.steps import Task
from isotrope.report.examples import MOST_TEXTS
from isotrope.text.corpus import Document, Documents
from isotrope.text.split import words_of
from isotrope.types import Encoder

TITLED = 0.5  # of the documents: with fewer titles, nothing is trained on titles
HELD_OUT, FEWEST_HELD_OUT = 300, 50  # documents that judge
# where documents have fewer than 100 words, more of them cost the same time
MOST_HELD_OUT, LONG = 1000, 100
GRADED = "similarity"  # the graded pairs that ship
GUARDS = ("STSBenchmark", "SICKRelatedness")  # their test pairs, where a data folder is known
_MOST_TIME = 0.1  # of the time: what this check may take


@dataclass(frozen=True, slots=True)
class Judges:
    """What judges."""

    tasks: Sequence[Task]
    titled: bool  # whether most documents have a title
    short: bool  # whether most documents are short
    told: list[str]  # a line for each task

    @property
    def searched(self) -> bool:
        """Whether searches judge, and not graded pairs."""
        return not isinstance(self.tasks[0], GradedPairs)


def held_out_count(documents: Documents, seed: int) -> int:
    """How many documents to hold out: so many that 300 of them can be in a task, or up to 1,000
    shorter ones.

    It is a fifth of all at most. Of few documents, it may be half.
    """
    most = max(len(documents) // 5, min(len(documents) // 2, 2 * FEWEST_HELD_OUT))
    first = min(HELD_OUT, most)
    some = usable_documents(list(documents.each(documents.split(first, seed)[1])), HELD_OUT)
    return min(most, first * _judging_count(some) // max(1, len(some)))


def judge_in_words(tasks: Sequence[Task], scores: TaskScores) -> tuple[str, str]:
    """What judges and what it measures, as a `Verdict` says it; ``scores`` has all cases."""
    size = max(map(len, scores.values()), default=0)
    if isinstance(tasks[0], GradedPairs):
        return f"{size:,} graded pairs of {tasks[0].name}", "Spearman × 100"
    if isinstance(tasks[0], RetrievalSet):
        return f"{size:,} queries of {tasks[0].name}", "nDCG@10 × 100"
    measure = "MRR@10 × 100" if len(tasks) == 1 else f"mean of {len(tasks)} tasks × 100"
    return f"{size:,} of your own documents", measure


def _judging_count(documents: Sequence[Document]) -> int:
    """How many documents like these are in a task."""
    words = [min(LONG, len(words_of(" ".join(document.paragraphs))[0])) for document in documents]
    return min(MOST_HELD_OUT, round(HELD_OUT * LONG / max(1.0, float(np.mean(words or [1])))))


def judges_of(held_out: Sequence[Document], labels: Labels | None, seed: int) -> Judges:
    """Tasks from held-out documents; with ``labels``, these alone. "half → half" is left out where
    two others judge.

    Raises:
        UserError: too few documents are long enough for any task.
    """
    titled = sum(bool(document.title) for document in held_out) >= TITLED * len(held_out)
    short = are_short(held_out)
    if labels is not None:
        return Judges(
            [labels], titled, short, [f"{labels.name}: your own labels, {in_words(labels)}"]
        )
    made = make_document_tasks(held_out, seed, most=_judging_count(held_out))
    if not made.tasks:
        why = next((line for line in made.told if line.startswith(HALVES)), made.told[0])
        problem = f"no task can be made from {len(held_out):,} held-out documents ({why})"
        raise UserError(problem, "give more or longer documents, or labels of your own (--labels)")
    if len(made.tasks) <= 2:
        return Judges(made.tasks, titled, short, made.told)
    told = [line for line in made.told if not line.startswith(f"{HALVES}:")]
    return Judges([task for task in made.tasks if task.name != HALVES], titled, short, told)


def shipped_pairs() -> SimilaritySets:
    """The graded pairs that ship, as the only set."""
    return {GRADED: {"test": similarity_pairs()}}


def general_pairs(data: str | Path | None = None) -> SimilaritySets:
    """The shipped graded pairs; also the test pairs of STS-B and SICK-R, if a data folder is known
    or named.
    """
    folder = data or os.environ.get("ISOTROPE_DATA")
    return {
        **shipped_pairs(),
        **({task: load_sts(folder, task, ["test"]) for task in GUARDS} if folder else {}),
    }


def affordable_pairs(
    sets: SimilaritySets, seconds: float, speed: float
) -> tuple[SimilaritySets, float]:
    """The sets, or the shipped pairs alone if the others take too long; and the seconds that this
    takes.

    ``seconds`` is the time of the whole race, and ``speed`` the words that the model reads in a
    second.
    """
    pairs = [each for parts in sets.values() for each in parts.values()]
    texts = {text for each in pairs for text in (*each.first, *each.second)}
    # the model before, and the choice
    wanted = 2 * sum(len(text.split()) for text in texts) / speed
    if wanted <= _MOST_TIME * seconds or len(sets) == 1:
        return sets, wanted
    return affordable_pairs(shipped_pairs(), seconds, speed)


def general_change(before: Encoder, after: Encoder, sets: SimilaritySets) -> dict[str, Any]:
    """What changes on these pairs: a `Comparison` as a dictionary, with each set under
    ``per_task``.
    """
    old, new = (main_pairs(sets, similarities(encoder, sets)) for encoder in (before, after))
    return asdict(compare(old, new))


def shown_search(tasks: Sequence[Task]) -> RetrievalSet | None:
    """The searches of which a report shows some; None: graded pairs judge, and nothing is searched."""
    shown = judging(task.name for task in tasks)[0]
    task = next(task for task in tasks if task.name == shown)
    some = (
        task
        if len(task.texts) <= MOST_TEXTS
        else task.part(task.size * MOST_TEXTS // len(task.texts))
    )
    if isinstance(some, DocumentTask):
        return some.as_retrieval_set()
    return some if isinstance(some, RetrievalSet) else None
