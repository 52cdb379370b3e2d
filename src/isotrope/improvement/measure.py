"""How good an encoder is on the tasks, with each post step after it. Every text is encoded once."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from zipfile import BadZipFile

import numpy as np
from sentence_transformers import SentenceTransformer

from isotrope.encoder.embed import cut, vectors_of
from isotrope.encoder.prompts import Role, has_roles
from isotrope.errors import UserError
from isotrope.evaluation.embed import Known
from isotrope.improvement.budget import Clock
from isotrope.improvement.candidates import Trial
from isotrope.improvement.decide import AS_IS, TaskScores, mean_score
from isotrope.improvement.steps import MAPS, Basis, fitted_step, hybrid_scores
from isotrope.store.atomic import new_file
from isotrope.text.permutation import evenly
from isotrope.types import Encoder, Vector

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
    model: SentenceTransformer, trial: Trial, tasks: Sequence[Task], basis: Basis
) -> dict[str, TaskScores]:
    """Candidate -> task -> (Q,). A post step that cannot be fitted on so few texts is left out.

    So are maps where BM25 does not help the search. What it gives is among the scores of the model as it is.

    Args:
        model: the encoder of the trial.
        trial: names the candidates.
        tasks: what judges.
        basis: what post steps are fitted on; no task may hold any of it.
    """
    known = known_by(model, *texts_of(tasks, basis, trial.steps))
    found: dict[str, TaskScores] = {trial.name: {task.name: task.score(known) for task in tasks}}
    hybrids = hybrid_scores(known, tasks) if any(step in MAPS for step in trial.steps) else {}
    helps = not hybrids or max(map(mean_score, hybrids.values())) > mean_score(found[trial.name])
    for name, step in trial.candidates():
        if not step or (step in MAPS and not helps):
            continue
        try:
            encoder = fitted_step(step, known, basis).searching(known)
        except UserError:
            continue
        found[name] = {task.name: task.score(encoder) for task in tasks}
    return found | (hybrids if trial.name == AS_IS else {})


def texts_of(tasks: Sequence[Task], basis: Basis, steps: Sequence[str]) -> tuple[list[str], list[str]]:
    """All that is read to measure an encoder with these post steps: queries, and other texts."""
    queries, documents = (list(texts) for texts in basis.texts(steps))
    for task in tasks:
        domain = getattr(task, "domain", None)  # graded pairs have none: both of their sides are read alike
        queries += domain.queries if domain else []
        documents += domain.corpus if domain else task.texts
    return list(dict.fromkeys(queries)), list(dict.fromkeys(documents))


def known_by(model: SentenceTransformer, queries: Sequence[str], documents: Sequence[str]) -> Known:
    """The vectors that a model gives to queries and to other texts, of which it reads the first tokens."""
    with cut(model, JUDGED_LENGTH):
        if not has_roles(model):
            every = list(dict.fromkeys([*queries, *documents]))
            return Known(every, vectors_of(model, every, batch_size=32))
        sides: Sequence[tuple[Role, Sequence[str]]] = (("document", documents), ("query", queries))
        found = [(each, vectors_of(model, each, batch_size=32, role=role)) for role, each in sides if each]
        asked = Known(*found.pop()) if queries else None
        return Known(*found[0], asked) if found else Known([], np.empty((0, 1)), asked)


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
