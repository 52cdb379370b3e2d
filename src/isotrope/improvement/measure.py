"""How good an encoder is on the tasks, with each post step after it. Every text is encoded once."""

import time
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from sentence_transformers import SentenceTransformer

from isotrope.encoder.embed import cut, vectors_of
from isotrope.errors import UserError
from isotrope.evaluation.embed import Known
from isotrope.evaluation.retrieval import OwnTask
from isotrope.evaluation.self_made import SelfMadeTask
from isotrope.evaluation.sts import PairTask
from isotrope.improvement.candidates import Trial, linear_step
from isotrope.improvement.decide import TaskScores
from isotrope.text.permutation import evenly

PROBED = 32  # texts that tell how fast a model reads
JUDGED_LENGTH = 128  # tokens of a text that are read while candidates are compared

Task: TypeAlias = SelfMadeTask | OwnTask | PairTask  # what judges


def words_read(texts: Iterable[str]) -> int:
    """Words that are read of these texts, about: a word may be several tokens."""
    return sum(min(len(text.split()), JUDGED_LENGTH) for text in texts)


def texts_read(tasks: Iterable[Task], fitted_on: Iterable[str]) -> list[str]:
    """All that is encoded to measure one encoder."""
    return list(dict.fromkeys([*fitted_on, *(text for task in tasks for text in task.texts)]))


def speed_of(model: SentenceTransformer, texts: Sequence[str]) -> float:
    """Words that a model reads in a second, from a few of the texts."""
    some = [texts[place] for place in evenly(len(texts), PROBED)]
    with cut(model, JUDGED_LENGTH):
        vectors_of(model, some[:2])  # the first call is slower
        began = time.monotonic()
        vectors_of(model, some, batch_size=PROBED)
    return words_read(some) / max(time.monotonic() - began, 1e-6)


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
    texts = texts_read(tasks, fitted_on)
    with cut(model, JUDGED_LENGTH):
        known = Known(texts, vectors_of(model, texts, batch_size=32))
    fit = known.vectors[: len(dict.fromkeys(fitted_on))].astype(np.float64)
    found: dict[str, TaskScores] = {}
    for name, step in trial.candidates():
        encoder = known
        if step:
            try:
                mean, matrix = linear_step(step).linear(fit)
            except UserError:
                continue
            encoder = Known(texts, (known.vectors - mean) @ matrix)
        found[name] = {task.name: task.score(encoder) for task in tasks}
    return found
