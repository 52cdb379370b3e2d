"""How good an encoder is on the tasks, with each post step after it, and the files that keep what
was measured.

Every text is encoded once. What is missing or damaged in a file is measured again.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from sentence_transformers import SentenceTransformer

from isotrope.encoder.embed import Vectors, search_vectors
from isotrope.encoder.length import limit_length
from isotrope.encoder.prompts import routed
from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import DocumentTask, make_document_tasks
from isotrope.evaluation.embed import Embeddings, embed_texts
from isotrope.evaluation.search import RankedLists
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.improvement.budget import Size, measurement_size
from isotrope.improvement.candidates import Trial, slug
from isotrope.improvement.decide import AS_IS, Places, TaskScores, mean_score
from isotrope.improvement.steps import (
    JUDGED_LENGTH,
    MAPS,
    QUERY_MAP,
    WHITENED_ON,
    WHITENINGS,
    Basis,
    Fitted,
    Task,
    texts_read,
    whitening_step,
    words_read,
)
from isotrope.improvement.teachers import BM25, Rankings, Reranker, TeachingModel, hybrid_scores
from isotrope.store.files import new_file
from isotrope.types import Vector

# the array that holds JSON; the others are named by kind, candidate, and task or part
TOLD = "told"
# of the time: what is read for maps, which are learned from the model as it is, and for folds
LEARNING = 0.3


@dataclass(frozen=True)
class Fold:
    """Documents that judge what was fitted on the others."""

    basis: Basis  # of the others
    tasks: list[DocumentTask]  # of these documents


def judging_folds(basis: Basis, tasks: Sequence[Task]) -> list[Fold]:
    """The folds of a basis, with the same kinds of tasks as ``tasks``. There are none if a kind
    cannot be made.
    """
    names = [task.name for task in tasks if isinstance(task, DocumentTask)]
    found = []
    for others, pages in basis.folds():
        made = {
            task.name: task
            for task in make_document_tasks(pages, basis.seed, most=len(pages)).tasks
        }
        if not names or not made.keys() >= set(names):
            return []
        found.append(Fold(others, [made[name] for name in names]))
    return found


def size_within(words: float, tasks: Sequence[Task], basis: Basis, dimensions: int) -> Size | None:
    """How much is measured by a race that can read so many words; None: there is no time for
    anything.
    """
    once = sum(map(words_read, basis.texts(MAPS)))  # maps are learned once
    folds = sum(
        words_read(task.texts) for fold in judging_folds(basis, tasks) for task in fold.tasks
    )
    part = min(1.0, LEARNING * words / max(once, 1))
    folded = 0 < folds <= LEARNING * words - once
    left = words - part * once - (folds if folded else 0)
    every = words_read(basis.whitened_on) / WHITENED_ON
    amounts = [(task.size, words_read(task.texts) / task.size) for task in tasks]
    size = measurement_size(left, (int(part * WHITENED_ON), every), amounts, dimensions)
    if size:
        return replace(size, folds=folded and size.fitted_on == WHITENED_ON)
    return measurement_size(words, (0, every), amounts, dimensions)  # without post steps


@dataclass(frozen=True)
class Measured:
    """What is known of an encoder and of the post steps after it. A step that could not be fitted
    is missing.
    """

    scores: Mapping[str, TaskScores]  # candidate -> task -> (Q,)
    hybrids: Mapping[str, TaskScores]  # the same, of searches that add BM25 to this encoder
    taught_by: list[str]  # the teachers of its rankings
    steps: Mapping[str, Fitted] = field(default_factory=dict)  # candidate -> its fitted step
    rankings: Rankings | None = None  # None: there is no teacher, or no step that learns from one
    # further ones, also if they do not teach -> score
    teachers: Mapping[str, float] = field(default_factory=dict)
    # see `_crossed`: candidate -> task -> cases (Q',)
    crossed: Mapping[str, TaskScores] = field(default_factory=dict)
    # task -> of which document each of them is (Q',)
    crossed_of: Mapping[str, Places] = field(default_factory=dict)


def measure_trial(
    model: SentenceTransformer,
    trial: Trial,
    tasks: Sequence[Task],
    basis: Basis,
    teachers: Mapping[str, TeachingModel | Reranker],
    encoded: Callable[[], None] = lambda: None,
    folds: Sequence[Fold] = (),
) -> Measured:
    """Measure an encoder. Post steps that cannot be fitted on so few texts are left out, as are
    maps without teacher.

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
    known = embed_texts(model, *texts_read(every, basis, trial.steps), JUDGED_LENGTH)
    encoded()
    scores: dict[str, TaskScores] = {trial.name: {task.name: task.score(known) for task in tasks}}
    learning = any(step in MAPS for step in trial.steps)
    hybrids = hybrid_scores(known, tasks) if learning else {}
    further: dict[str, float] = {}
    for name, teacher in teachers.items() if learning else ():
        if isinstance(teacher, TeachingModel):
            further[name] = teacher.score
        elif trial.name == AS_IS:
            # each list costs as much as 50 texts, so it teaches the model that was given
            further[name] = teacher.score(
                known, [task for task in tasks if not isinstance(task, GradedPairs)]
            )
    taught_by = list[str]()
    if learning and len(basis.documents) > 1 and basis.asked.texts:  # there is something to rank
        alone = mean_score(scores[trial.name])
        # graded pairs say nothing of BM25: there it teaches too, and the pairs judge what was
        # learned
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
    known: Embeddings,
    asked: Mapping[str, str],
    folds: Sequence[Fold],
    ranked: Callable[[Basis], Rankings],
) -> tuple[dict[str, TaskScores], dict[str, Places]]:
    """Candidate -> task -> its cases in all folds, and task -> of which document each is.

    ``asked`` names each candidate's step. It is fitted on the basis of a fold, whose maps learn
    what ``ranked`` gives, and judged by the documents of the fold.
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
            of[task.name].append(first + task.documents)
        first += 1 + max(int(task.documents.max()) for task in fold.tasks)
    every = {
        name: {task: np.concatenate(cases) for task, cases in own.items()}
        for name, own in scores.items()
    }
    return {**every}, {task: np.concatenate(places) for task, places in of.items()}


def found_by(model: SentenceTransformer, search: RetrievalSet) -> tuple[Vectors, Vectors]:
    """The vectors of a search's queries and texts."""
    with limit_length(model, JUDGED_LENGTH):
        return search_vectors(model, search.queries, search.corpus)


@dataclass(frozen=True)
class Kept:
    """The files of a race in which everything is measured on so much, in NumPy's .npz format."""

    folder: Path
    size: Size  # in the name of each file

    def read(self, trial: Trial) -> Measured | None:
        """What is known of a trial, without what was fitted, which is large: see `step` and
        `rankings`.
        """
        with (
            suppress(OSError, EOFError, ValueError, BadZipFile),
            np.load(self._file(trial)) as file,
        ):
            if file.zip.testzip():  # what `step` and `rankings` read later is damaged
                return None
            scores, hybrids, crossed, of = (
                _parts(file, kind) for kind in ("scores", "hybrids", "crossed", "of")
            )
            return Measured(
                scores, hybrids, crossed=crossed, crossed_of=of[""], **json.loads(str(file[TOLD]))
            )
        return None

    def write(self, trial: Trial, found: Measured) -> None:
        """Keep what was measured. What a trained model would teach is left out."""
        rankings: dict[str, Any] = {}
        if (taught := found.rankings) and not trial.recipe:
            lists = {"places": taught.lists.documents, "scores": taught.lists.scores}
            rankings[""] = {"rows": taught.rows, "documents": taught.documents, **lists}
        kinds: dict[str, Mapping[str, Mapping[str, Any]]] = {
            "scores": found.scores,
            "hybrids": found.hybrids,
            "crossed": found.crossed,
            "of": {"": found.crossed_of},
            "steps": {name: vars(step) for name, step in found.steps.items()},
            "rankings": rankings,
        }
        arrays: dict[str, Any] = {
            TOLD: json.dumps({"taught_by": found.taught_by, "teachers": found.teachers})
        }
        for kind, named in kinds.items():
            for name, parts in named.items():
                arrays |= {json.dumps([kind, name, part]): array for part, array in parts.items()}
        self._file(trial).parent.mkdir(parents=True, exist_ok=True)
        with new_file(self._file(trial)) as file:
            np.savez(file, **arrays)

    def step(self, trial: Trial, candidate: str) -> Fitted:
        """The fitted post step of one of a trial's candidates."""
        with np.load(self._file(trial)) as file:
            return Fitted(**_parts(file, "steps")[candidate])

    def rankings(self, trial: Trial, basis: Basis) -> Rankings | None:
        """What teachers say to the model that a trial begins with; None: there is no teacher."""
        with np.load(self._file(replace(trial, recipe=""))) as file:
            of = _parts(file, "rankings").get("")
        if not of:
            return None
        queries, lists = (
            [basis.asked.texts[row] for row in of["rows"]],
            RankedLists(of["places"], of["scores"]),
        )
        # their vectors are not kept
        return Rankings(queries, of["rows"], np.empty((0, 0)), of["documents"], lists)

    def _file(self, trial: Trial) -> Path:
        name = trial.name if trial.recipe else f"of {trial.start}, pooling {trial.pooling}"
        return (
            self.folder / "measured" / f"{slug(name)}-{self.size.queries}-{self.size.fitted_on}.npz"
        )


def _parts(file: Mapping[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """Candidate -> task or part -> array, of one kind."""
    found = defaultdict[str, dict[str, Any]](dict)
    for key in file:
        if key != TOLD and (place := json.loads(key))[0] == kind:
            found[place[1]][place[2]] = file[key]
    return found
