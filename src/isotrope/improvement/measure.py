"""How good an encoder is on the tasks, with each post step after it. Every text is encoded once."""

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sentence_transformers import SentenceTransformer

from isotrope.encoder import load
from isotrope.encoder.embed import Vectors, cut, search_vectors, vectors_of
from isotrope.encoder.prompts import routed
from isotrope.errors import UserError
from isotrope.evaluation.embed import known_by
from isotrope.evaluation.sets.domain import Domain
from isotrope.evaluation.sts import PairTask
from isotrope.improvement.budget import Amount, Size, measurement_size
from isotrope.improvement.candidates import Trial
from isotrope.improvement.decide import AS_IS, TaskScores, mean_score
from isotrope.improvement.reranker import DEPTH, FEWEST, Reranker, is_cross_encoder
from isotrope.improvement.steps import (
    MAPS,
    QUERY_MAP,
    WHITENED_ON,
    WHITENINGS,
    Basis,
    Fitted,
    Task,
    map_step,
    whitening_step,
)
from isotrope.improvement.teachers import (
    BM25,
    Rankings,
    TeachingModel,
    hybrid_scores,
    reranker_score,
    used_teachers,
)
from isotrope.text.permutation import evenly

PROBED = 32  # texts that tell how fast a model reads
LEARNING = 0.2  # of the time: what is read for maps, which are learned from the model as it is
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


def size_within(words: float, tasks: Sequence[Task], basis: Basis, dimensions: int) -> Size | None:
    """How much is measured by a race that can read so many words; None: there is no time for anything."""
    once = sum(map(words_read, basis.texts(MAPS)))  # maps are learned once
    part = min(1.0, LEARNING * words / max(once, 1))
    every = words_read(basis.whitened_on) / WHITENED_ON
    amounts = [Amount(task.size, words_read(task.texts) / task.size) for task in tasks]
    size = measurement_size(words - part * once, Amount(int(part * WHITENED_ON), every), amounts, dimensions)
    return size or measurement_size(words, Amount(0, every), amounts, dimensions)  # without post steps


@dataclass(frozen=True)
class Measured:
    """What is known of an encoder and of the post steps after it.

    Attributes:
        scores: candidate -> task -> (Q,).
        hybrids: searches that add BM25 to this encoder, as ``scores``.
        taught_by: the teachers of its rankings.
        steps: candidate -> its fitted step.
        rankings: what they teach; None: there is no teacher, or no step that learns from rankings was asked for.
        teachers: the score of each further teacher.
    """

    scores: dict[str, TaskScores]
    hybrids: dict[str, TaskScores]
    taught_by: list[str]
    steps: Mapping[str, Fitted] = field(default_factory=dict)
    rankings: Rankings | None = None
    teachers: Mapping[str, float] = field(default_factory=dict)


def measure_trial(
    model: SentenceTransformer,
    trial: Trial,
    tasks: Sequence[Task],
    basis: Basis,
    teachers: Mapping[str, TeachingModel | Reranker],
    encoded: Callable[[], None] = lambda: None,
) -> Measured:
    """Measure an encoder. Post steps that cannot be fitted on so few texts are left out, as are maps without teacher.

    Args:
        model: the encoder of the trial.
        trial: names the candidates.
        tasks: what judges.
        basis: what post steps are fitted on; no task may hold any of it.
        teachers: further models that may teach rankings.
        encoded: called when all texts are encoded, which is what takes long.
    """
    known = known_by(model, *texts_read(tasks, basis, trial.steps), JUDGED_LENGTH)
    encoded()
    scores: dict[str, TaskScores] = {trial.name: {task.name: task.score(known) for task in tasks}}
    learning = any(step in MAPS for step in trial.steps)
    hybrids = hybrid_scores(known, tasks) if learning else {}
    further: dict[str, float] = {}
    for name, teacher in teachers.items() if learning else ():
        if isinstance(teacher, TeachingModel):
            further[name] = teacher.score
        elif trial.name == AS_IS:  # each list costs as much as 50 texts, so it teaches the model that was given
            further[name] = reranker_score(teacher, known, tasks)
    taught_by = used_teachers(scores[trial.name], hybrids, further) if learning else []
    rankings, steps = None, dict[str, Fitted]()
    if len(basis.documents) < 2 or not basis.asked.texts:  # there is nothing to rank
        taught_by = []
    if taught_by:
        used = [teachers[name] for name in taught_by if name != BM25]
        models = [teacher.known for teacher in used if isinstance(teacher, TeachingModel)]
        rankings = Rankings.of(known, basis, BM25 in taught_by, models)
        for teacher in used:
            rankings = rankings.reranked(teacher, basis.documents) if isinstance(teacher, Reranker) else rankings
    for name, step in trial.candidates():
        with suppress(UserError):
            if step in WHITENINGS:
                steps[name] = whitening_step(step, known, basis)
            elif step in MAPS and rankings and not (step == QUERY_MAP and routed(model)):
                steps[name] = map_step(step, rankings.asked, rankings.documents, rankings.lists, basis.seed)
        if name in steps:
            after = steps[name].searching(known)
            scores[name] = {task.name: task.score(after) for task in tasks}
    return Measured(scores, hybrids, taught_by, steps, rankings, further)


def found_by(model: SentenceTransformer, search: Domain) -> tuple[Vectors, Vectors]:
    """The vectors of a search's queries and texts."""
    with cut(model, JUDGED_LENGTH):
        return search_vectors(model, search.queries, search.corpus)


def read_teacher(
    where: str, tasks: Sequence[Task], basis: Basis, seconds: float, count: int = 0
) -> TeachingModel | Reranker:
    """A further teacher: a model that has read all texts of the tasks and the basis, or a cross-encoder.

    Args:
        where: as `isotrope.load` takes it.
        tasks: what judges it.
        basis: what it teaches.
        seconds: that it may take.
        count: pseudo-queries that a cross-encoder is asked about; 0: as many as there is time for.

    Raises:
        UserError: it would take longer, or cannot be judged.
    """
    queries, documents = texts_read(tasks, basis, MAPS)
    crossing = is_cross_encoder(where)
    judging = [len(task.domain.queries) for task in tasks if not isinstance(task, PairTask)]
    if crossing and not judging:
        raise UserError("graded pairs cannot say how well a cross-encoder orders documents", "judge by searches")
    if crossing:
        reranker, wanted = Reranker.load(where), len(basis.asked.texts)
        lists = reranker.speed(basis.asked.texts, basis.documents) / DEPTH  # a second
        needed = 0.0 if count else (min(FEWEST, wanted) + sum(judging)) / lists
        possible = int(min(seconds * lists, sys.maxsize)) - sum(judging)
        reranker = replace(reranker, count=count or min(possible, wanted))
    else:
        model = load(where)
        needed = words_read([*queries, *documents]) / speed_of(model, [*queries, *documents])
    if needed > seconds:
        work = "order the documents" if crossing else "read the texts"
        raise UserError(f"it would take {needed / 60:.0f} minutes to {work}", "give more minutes")
    if crossing:
        return reranker
    known = known_by(model, queries, documents, JUDGED_LENGTH)
    return TeachingModel(known, mean_score({task.name: task.score(known) for task in tasks}))
