"""How good an encoder is on the tasks, with each post step after it. Every text is encoded once."""

import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from sentence_transformers import SentenceTransformer

from isotrope.encoder.embed import cut, vectors_of
from isotrope.encoder.prompts import Role, has_roles, routed
from isotrope.errors import UserError
from isotrope.evaluation.embed import Known
from isotrope.evaluation.sts import PairTask
from isotrope.improvement.candidates import Trial
from isotrope.improvement.decide import AS_IS, TaskScores
from isotrope.improvement.steps import MAPS, QUERY_MAP, Basis, Fitted, Task, fitted_step, helpful, hybrid_scores
from isotrope.text.permutation import evenly

PROBED = 32  # texts that tell how fast a model reads
JUDGED_LENGTH = 128  # tokens of a text that are read while candidates are compared


def words_read(texts: Iterable[str]) -> int:
    """Words that are read of these texts, about: a word may be several tokens."""
    return sum(min(len(text.split()), JUDGED_LENGTH) for text in texts)


def texts_read(tasks: Iterable[Task], basis: Basis, steps: Sequence[str]) -> tuple[list[str], list[str]]:
    """All that is encoded to measure one encoder with these post steps: queries, and other texts."""
    queries, documents = (list(texts) for texts in basis.texts(steps))
    for task in tasks:
        if isinstance(task, PairTask):  # both sides of a graded pair are read alike
            documents += task.texts
        else:
            queries += task.domain.queries
            documents += task.domain.corpus
    return list(dict.fromkeys(queries)), list(dict.fromkeys(documents))


def speed_of(model: SentenceTransformer, texts: Sequence[str]) -> float:
    """Words that a model reads in a second, from a few of the texts."""
    some = [texts[place] for place in evenly(len(texts), PROBED)]
    with cut(model, JUDGED_LENGTH):
        vectors_of(model, some[:2])  # the first call is slower
        began = time.monotonic()
        vectors_of(model, some, batch_size=PROBED)
    return words_read(some) / max(time.monotonic() - began, 1e-6)


def measure_trial(
    model: SentenceTransformer,
    trial: Trial,
    tasks: Sequence[Task],
    basis: Basis,
    encoded: Callable[[], None] = lambda: None,
) -> tuple[dict[str, TaskScores], dict[str, Fitted]]:
    """Candidate -> task -> (Q,), and candidate -> its fitted step.

    A post step that cannot be fitted on so few texts is left out, and so are maps where BM25 does not help the search.
    What such a search gives is among the scores of the model as it is.

    Args:
        model: the encoder of the trial.
        trial: names the candidates.
        tasks: what judges.
        basis: what post steps are fitted on; no task may hold any of it.
        encoded: called when all texts are encoded, which is what takes long.
    """
    known = known_by(model, *texts_read(tasks, basis, trial.steps))
    encoded()
    found: dict[str, TaskScores] = {trial.name: {task.name: task.score(known) for task in tasks}}
    fitted = dict[str, Fitted]()
    hybrids = hybrid_scores(known, tasks) if any(step in MAPS for step in trial.steps) else {}
    impossible = set[str]() if not hybrids or helpful(hybrids, found[trial.name]) else set(MAPS)
    impossible |= {QUERY_MAP} if routed(model) else set()
    for name, step in trial.candidates():
        if not step or step in impossible:
            continue
        try:
            fitted[name] = fitted_step(step, known, basis)
        except UserError:
            continue
        encoder = fitted[name].searching(known)
        found[name] = {task.name: task.score(encoder) for task in tasks}
    return found | (hybrids if trial.name == AS_IS else {}), fitted


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
