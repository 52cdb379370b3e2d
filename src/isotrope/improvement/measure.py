"""How good an encoder is on the tasks, with each post step after it. Every text is encoded once."""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from sentence_transformers import SentenceTransformer

from isotrope.encoder import load
from isotrope.encoder.embed import Vectors, cut, search_vectors, vectors_of
from isotrope.encoder.prompts import routed
from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import make_document_tasks
from isotrope.evaluation.embed import Known, known_by
from isotrope.evaluation.self_made import SelfMadeTask
from isotrope.evaluation.sets.domain import Domain
from isotrope.evaluation.sts import PairTask
from isotrope.improvement.budget import Amount, Budget, Size, measurement_size
from isotrope.improvement.candidates import Trial
from isotrope.improvement.decide import AS_IS, Places, TaskScores, mean_score
from isotrope.improvement.steps import MAPS, QUERY_MAP, WHITENED_ON, WHITENINGS, Basis, Fitted, Task, whitening_step
from isotrope.improvement.teachers import (
    BM25,
    DEPTH,
    FEWEST,
    Rankings,
    Reranker,
    TeachingModel,
    hybrid_scores,
    is_cross_encoder,
)  # fmt: skip
from isotrope.text.permutation import evenly
from isotrope.types import Vector

PROBED = 32  # texts that tell how fast a model reads
LEARNING = 0.3  # of the time: what is read for maps, which are learned from the model as it is, and for folds
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
    """Words that a model reads in a second, by the budget's clock, from a few of the texts."""
    some = [texts[place] for place in evenly(len(texts), PROBED)]
    with cut(model, JUDGED_LENGTH):
        vectors_of(model, some[:2])  # the first call is slower
        began = Budget.clock.now()
        vectors_of(model, some, batch_size=PROBED)
    return words_read(some) / max(Budget.clock.now() - began, 1e-6)


@dataclass(frozen=True)
class Fold:
    """Documents that judge what was fitted on the others."""

    basis: Basis  # of the others
    tasks: list[SelfMadeTask]  # of these documents


def judging_folds(basis: Basis, tasks: Sequence[Task]) -> list[Fold]:
    """The folds of a basis, with the same kinds of tasks as ``tasks``. There are none if a kind cannot be made."""
    names = [task.name for task in tasks if isinstance(task, SelfMadeTask)]
    found = []
    for others, pages in basis.folds():
        made = {task.name: task for task in make_document_tasks(pages, basis.seed, most=len(pages)).tasks}
        if not names or not made.keys() >= set(names):
            return []
        found.append(Fold(others, [made[name] for name in names]))
    return found


def size_within(words: float, tasks: Sequence[Task], basis: Basis, dimensions: int) -> Size | None:
    """How much is measured by a race that can read so many words; None: there is no time for anything."""
    once = sum(map(words_read, basis.texts(MAPS)))  # maps are learned once
    folds = sum(words_read(task.texts) for fold in judging_folds(basis, tasks) for task in fold.tasks)
    part = min(1.0, LEARNING * words / max(once, 1))
    folded = 0 < folds <= LEARNING * words - once
    left = words - part * once - (folds if folded else 0)
    every = words_read(basis.whitened_on) / WHITENED_ON
    amounts = [Amount(task.size, words_read(task.texts) / task.size) for task in tasks]
    size = measurement_size(left, Amount(int(part * WHITENED_ON), every), amounts, dimensions)
    if size:
        return replace(size, folds=folded and size.fitted_on == WHITENED_ON)
    return measurement_size(words, Amount(0, every), amounts, dimensions)  # without post steps


@dataclass(frozen=True)
class Measured:
    """What is known of an encoder and of the post steps after it. A step that could not be fitted is missing."""

    scores: Mapping[str, TaskScores]  # candidate -> task -> (Q,)
    hybrids: Mapping[str, TaskScores]  # the same, of searches that add BM25 to this encoder
    taught_by: list[str]  # the teachers of its rankings
    steps: Mapping[str, Fitted] = field(default_factory=dict)  # candidate -> its fitted step
    rankings: Rankings | None = None  # None: there is no teacher, or no step that learns from one
    teachers: Mapping[str, float] = field(default_factory=dict)  # further ones, also if they do not teach -> score
    crossed: Mapping[str, TaskScores] = field(default_factory=dict)  # see `_crossed`: candidate -> task -> cases (Q',)
    crossed_of: Mapping[str, Places] = field(default_factory=dict)  # task -> of which document each of them is (Q',)


def measure_trial(
    model: SentenceTransformer,
    trial: Trial,
    tasks: Sequence[Task],
    basis: Basis,
    teachers: Mapping[str, TeachingModel | Reranker],
    encoded: Callable[[], None] = lambda: None,
    folds: Sequence[Fold] = (),
) -> Measured:
    """Measure an encoder. Post steps that cannot be fitted on so few texts are left out, as are maps without teacher.

    Args:
        model: the encoder of the trial.
        trial: names the candidates.
        tasks: what judges.
        basis: what post steps are fitted on; no task may hold any of it.
        teachers: further models that may teach rankings.
        encoded: called when all texts are encoded, which is what takes long.
        folds: of the basis, which judge the steps too.
    """
    every = [*tasks, *(task for fold in folds for task in fold.tasks)]
    known = known_by(model, *texts_read(every, basis, trial.steps), JUDGED_LENGTH)
    encoded()
    scores: dict[str, TaskScores] = {trial.name: {task.name: task.score(known) for task in tasks}}
    learning = any(step in MAPS for step in trial.steps)
    hybrids = hybrid_scores(known, tasks) if learning else {}
    further: dict[str, float] = {}
    for name, teacher in teachers.items() if learning else ():
        if isinstance(teacher, TeachingModel):
            further[name] = teacher.score
        elif trial.name == AS_IS:  # each list costs as much as 50 texts, so it teaches the model that was given
            further[name] = teacher.score(known, [task for task in tasks if not isinstance(task, PairTask)])
    taught_by = list[str]()
    if learning and len(basis.documents) > 1 and basis.asked.texts:  # there is something to rank
        alone = mean_score(scores[trial.name])
        # graded pairs say nothing of BM25: there it teaches too, and the pairs judge what was learned
        adds = not hybrids or max(map(mean_score, hybrids.values())) > alone
        taught_by = [BM25] * adds + [name for name, score in further.items() if score > alone]
    used = [teachers[name] for name in taught_by if name != BM25]
    models = [teacher.known for teacher in used if isinstance(teacher, TeachingModel)]
    ranked = partial(Rankings.of, known, words=BM25 in taught_by, models=models)
    rankings, steps = ranked(basis) if taught_by else None, dict[str, Fitted]()
    for teacher in used:
        if rankings and isinstance(teacher, Reranker):
            rankings = rankings.reranked(teacher, basis.documents)
    for name, step in trial.candidates():
        with suppress(UserError):
            if step in WHITENINGS:
                steps[name] = whitening_step(step, known, basis)
            elif step in MAPS and rankings and not (step == QUERY_MAP and routed(model)):
                steps[name] = rankings.learned(step, basis.seed)
        if name in steps:
            after = steps[name].searching(known)
            scores[name] = {task.name: task.score(after) for task in tasks}
    # a cross-encoder has no time for folds
    quick = ("", *WHITENINGS, *([QUERY_MAP] if len(models) == len(used) else []))
    asked = {name: step for name, step in trial.candidates() if name in scores and step in quick}
    crossed, of = _crossed(known, asked, folds, ranked)
    return Measured(scores, hybrids, taught_by, steps, rankings, further, crossed, of)


def _crossed(
    known: Known, asked: Mapping[str, str], folds: Sequence[Fold], ranked: Callable[[Basis], Rankings]
) -> tuple[dict[str, TaskScores], dict[str, Places]]:
    """Candidate -> task -> its cases in all folds, and task -> of which document each is.

    ``asked`` names each candidate's step. It is fitted on the basis of a fold, whose maps learn what ``ranked`` gives,
    and judged by the documents of the fold.
    """
    if not folds:
        return {}, {}
    scores: dict[str, dict[str, list[Vector]]] = {name: defaultdict(list) for name in asked}
    of, first = defaultdict[str, list[Places]](list), 0
    for fold in folds:
        for name, step in asked.items():
            after = known
            if step == QUERY_MAP:
                after = ranked(fold.basis).learned(step, fold.basis.seed).searching(known)
            elif step:
                after = whitening_step(step, known, fold.basis).searching(known)
            for task in fold.tasks:
                scores[name][task.name].append(task.score(after))
        for task in fold.tasks:
            of[task.name].append(first + task.of)
        first += 1 + max(int(task.of.max()) for task in fold.tasks)
    every = {name: {task: np.concatenate(cases) for task, cases in own.items()} for name, own in scores.items()}
    return {**every}, {task: np.concatenate(places) for task, places in of.items()}


def found_by(model: SentenceTransformer, search: Domain) -> tuple[Vectors, Vectors]:
    """The vectors of a search's queries and texts."""
    with cut(model, JUDGED_LENGTH):
        return search_vectors(model, search.queries, search.corpus)


def read_teacher(
    where: str, tasks: Sequence[Task], basis: Basis, seconds: float, count: int = 0
) -> TeachingModel | Reranker:
    """A further teacher: a model that has read all texts of the tasks and the basis, or a cross-encoder.

    ``count`` pseudo-queries are what a cross-encoder is asked about; 0: as many as ``seconds`` leave time for.

    Raises:
        UserError: it would take longer, or cannot be judged.
    """
    if is_cross_encoder(where):
        judging = [len(task.domain.queries) for task in tasks if not isinstance(task, PairTask)]
        if not judging:
            raise UserError("graded pairs cannot say how well a cross-encoder orders documents", "judge by searches")
        reranker, wanted = Reranker.load(where), len(basis.asked.texts)
        lists = reranker.speed(basis.asked.texts, basis.documents) / DEPTH  # a second
        if not count:
            _check_time((min(FEWEST, wanted) + sum(judging)) / lists, seconds, "order the documents")
        possible = int(min(seconds * lists, sys.maxsize)) - sum(judging)
        return replace(reranker, count=count or min(possible, wanted))
    model, (queries, documents) = load(where), texts_read(tasks, basis, MAPS)
    every = [*queries, *documents]
    _check_time(words_read(every) / speed_of(model, every), seconds, "read the texts")
    known = known_by(model, queries, documents, JUDGED_LENGTH)
    return TeachingModel(known, mean_score({task.name: task.score(known) for task in tasks}))


def _check_time(needed: float, seconds: float, work: str) -> None:
    if needed > seconds:
        raise UserError(f"it would take {needed / 60:.0f} minutes to {work}", "give more minutes")
