"""How good an encoder is on the tasks, with each post step behind it. Every text is encoded once."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from zipfile import BadZipFile

import numpy as np
from sentence_transformers import SentenceTransformer

from isotrope.encoder.embed import cut, vectors_of
from isotrope.errors import UserError
from isotrope.evaluation.embed import Known
from isotrope.improvement.budget import Clock
from isotrope.improvement.candidates import Trial, linear_step
from isotrope.improvement.decide import TaskScores
from isotrope.store.atomic import new_file
from isotrope.text.permutation import evenly
from isotrope.types import Encoder, Matrix, Vector

JUDGED_LENGTH = 128  # tokens of a text that are read while candidates are compared
PROBED = 32  # texts that tell how fast a model reads
_BETWEEN = "\t"  # of a candidate's name and a task's, in a file of scores


class Task(Protocol):
    """What judges: texts to encode, and a score for each query."""

    @property
    def name(self) -> str:
        """As tables show it."""

    @property
    def texts(self) -> list[str]:
        """All that is encoded."""

    def score(self, encoder: Encoder) -> Vector:
        """(Q,) one number a query."""


def words_read(texts: Sequence[str]) -> int:
    """Words that are read of these texts, about: a word may be several tokens."""
    return sum(min(len(text.split()), JUDGED_LENGTH) for text in texts)


def speed_of(model: SentenceTransformer, texts: Sequence[str], clock: Clock) -> tuple[float, int]:
    """Words that a model reads in a second, from a few of the texts; and the dimensions of its vectors."""
    some = [texts[place] for place in evenly(len(texts), PROBED)]
    with cut(model, JUDGED_LENGTH):
        vectors_of(model, some[:2])  # the first call is slower
        began = clock.spent
        dimensions = vectors_of(model, some, batch_size=PROBED).shape[1]
    return words_read(some) / max(clock.spent - began, 1e-6), dimensions


def measure_trial(
    model: SentenceTransformer, trial: Trial, tasks: Sequence[Task], fitted_on: Sequence[str]
) -> dict[str, TaskScores]:
    """Candidate -> task -> (Q,). A post step that cannot be fitted on so few texts is left out.

    Args:
        model: the encoder of the trial.
        trial: names the candidates.
        tasks: what judges.
        fitted_on: texts for the post steps; no task may hold them.
    """
    fitted_on = fitted_on if trial.steps else []
    texts = list(dict.fromkeys([*fitted_on, *(text for task in tasks for text in task.texts)]))
    with cut(model, JUDGED_LENGTH):
        known = Known(texts, vectors_of(model, texts, batch_size=32))
    fit: Matrix = np.asarray(known.encode(fitted_on), dtype=np.float64) if fitted_on else np.empty((0, 1))
    found: dict[str, TaskScores] = {}
    for name, step in trial.candidates():
        try:
            encoder = _moved(known, texts, *linear_step(step).linear(fit)) if step else known
        except UserError:
            continue
        found[name] = {task.name: task.score(encoder) for task in tasks}
    return found


def write_scores(path: Path, scores: Mapping[str, TaskScores]) -> None:
    """Keep the scores of a trial's candidates."""
    arrays = {f"{name}{_BETWEEN}{task}": cases for name, of in scores.items() for task, cases in of.items()}
    with new_file(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read_scores(path: Path) -> Mapping[str, TaskScores]:
    """What `write_scores` wrote; {} if it is missing or damaged, since it can be measured again."""
    found: dict[str, dict[str, Any]] = {}
    try:
        with np.load(path, allow_pickle=False) as file:
            for key in file.files:
                name, _, task = key.partition(_BETWEEN)
                found.setdefault(name, {})[task] = file[key]
    except (OSError, ValueError, EOFError, KeyError, BadZipFile):
        return {}
    return found


def _moved(known: Known, texts: Sequence[str], mean: Matrix, matrix: Matrix) -> Known:
    return Known(texts, (known.vectors - mean) @ matrix)
