"""How good an encoder is on the choosing tasks, alone, with each post step and with BM25 beside it.

Every text is encoded once. The files of a race keep what was measured; what is missing or damaged
there is measured again.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from sentence_transformers import SentenceTransformer

from isotrope.encoder.prompts import routed
from isotrope.errors import UserError
from isotrope.evaluation.embed import Embeddings, embed_texts
from isotrope.evaluation.search import RankedLists
from isotrope.improvement.candidates import Candidate, file_name
from isotrope.improvement.cross_fit import CrossFitted, Fold, cross_fit
from isotrope.improvement.plan import Plan, reads_maps
from isotrope.improvement.scores import CandidateTable, SearchScores, TaskScores, mean_score
from isotrope.improvement.steps import (
    QUERY_MAP,
    WHITENINGS,
    FittedStep,
    FittingSet,
    fit_whitening,
)
from isotrope.improvement.tasks import JUDGED_LENGTH, TaskSet, texts_to_encode
from isotrope.improvement.teachers import BM25, Rankings, list_score
from isotrope.store.files import new_file

BM25_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)  # of the scores of a search that adds BM25 to a model
_TEACHING = "teaching"  # the array that holds JSON; the names of the others are lists in JSON


@dataclass
class CandidateScores:
    """What is known of an encoder and of the post steps after it. A step that could not be fitted
    is missing.
    """

    scores: dict[str, TaskScores] = field(default_factory=dict)  # candidate -> its scores
    hybrids: SearchScores = field(default_factory=dict)
    steps: dict[str, FittedStep] = field(default_factory=dict)  # candidate -> its fitted step
    rankings: Rankings | None = None  # that maps were learned from
    taught_by: list[str] = field(default_factory=list)  # the teachers of these rankings
    teachers: dict[str, float] = field(default_factory=dict)  # further models -> their scores
    cross_fitted: CrossFitted = field(default_factory=CrossFitted)  # of the quick steps

    def add(self, name: str, embeddings: Embeddings, task_set: TaskSet) -> None:
        """Score a candidate, alone and with each share of BM25."""
        self.scores[name] = task_set.score(embeddings)
        if task_set.searches:
            self.hybrids[name] = {
                share: task_set.score_hybrid(embeddings, share) for share in BM25_SHARES
            }


def measure_candidate(
    model: SentenceTransformer,
    candidate: Candidate,
    task_set: TaskSet,
    fitting_set: FittingSet,
    teachers: Mapping[str, Embeddings],
    folds: Sequence[Fold] = (),
) -> CandidateScores:
    """Measure an encoder with its post steps. Whitening is left out if there are too few texts, and
    maps if nobody teaches them.

    Args:
        model: the encoder of the candidate.
        candidate: which post steps are tried, and how they are named.
        task_set: the choosing tasks.
        fitting_set: what post steps are fitted on.
        teachers: all texts as further models encode them, which may teach rankings.
        folds: of the fitting set, for the model as it is: its quick steps are cross-fitted.
    """
    fold_tasks = [task for fold in folds for task in fold.task_set.tasks]
    texts = texts_to_encode([*task_set.tasks, *fold_tasks], fitting_set, candidate.steps)
    embeddings = embed_texts(model, *texts, JUDGED_LENGTH)
    measured = CandidateScores()
    measured.add(candidate.name, embeddings, task_set)

    can_rank = len(fitting_set.documents) > 1 and fitting_set.pseudo_queries.texts
    if reads_maps(candidate) and can_rank:
        find_teachers(measured, candidate.name, embeddings, task_set, teachers)
    if measured.taught_by:
        measured.rankings = Rankings.of(embeddings, fitting_set, measured.taught_by, teachers)

    for name, step in candidate.with_steps():
        if not step or (step == QUERY_MAP and routed(model)):
            continue
        with suppress(UserError):  # too few texts for this step
            if step in WHITENINGS:
                fitted = fit_whitening(step, embeddings, fitting_set)
            elif measured.rankings:
                fitted = measured.rankings.fit_map(step, fitting_set.seed)
            else:
                continue
            measured.steps[name] = fitted
            measured.add(name, fitted.apply(embeddings), task_set)
    if folds:
        measured.cross_fitted = _cross_fit(measured, candidate, embeddings, teachers, folds)
    return measured


def _cross_fit(
    measured: CandidateScores,
    candidate: Candidate,
    embeddings: Embeddings,
    teachers: Mapping[str, Embeddings],
    folds: Sequence[Fold],
) -> CrossFitted:
    """Fit the quick steps again, outside each fold and with the same teachers."""

    def fit_outside(step: str, fitting_set: FittingSet) -> FittedStep:
        if step in WHITENINGS:
            return fit_whitening(step, embeddings, fitting_set)
        rankings = Rankings.of(embeddings, fitting_set, measured.taught_by, teachers)
        return rankings.fit_map(step, fitting_set.seed)

    steps = {name: step for name, step in candidate.with_steps() if name in measured.steps}
    return cross_fit(embeddings, steps, folds, fit_outside)


def find_teachers(
    measured: CandidateScores,
    name: str,
    embeddings: Embeddings,
    task_set: TaskSet,
    teachers: Mapping[str, Embeddings],
) -> None:
    """Note which teachers make a fused list that finds more than the model, and their scores.

    A further teacher must make a better list than the one without it. Graded pairs say nothing of
    lists: there BM25 teaches, and so does each model with a better score of its own.
    """
    to_beat = mean_score(measured.scores[name])
    with_bm25 = True
    if task_set.searches:
        # Any share may help. On NPL equal shares did not, and the map gained (docs/log.md).
        with_bm25 = max(map(mean_score, measured.hybrids[name].values())) > to_beat
        to_beat = max(to_beat, list_score([embeddings], with_bm25, task_set))

    for teacher, vectors in teachers.items():
        if task_set.searches:
            score = list_score([embeddings, vectors], with_bm25, task_set)
        else:
            score = mean_score(task_set.score(vectors))
        measured.teachers[teacher] = score
        if score > to_beat:
            measured.taught_by.append(teacher)
    if with_bm25:
        measured.taught_by.insert(0, BM25)


@dataclass(frozen=True)
class RaceFiles:
    """What a race has measured, one file in NumPy's .npz format for each encoder."""

    folder: Path

    @classmethod
    def of(cls, race: Path, plan: Plan) -> "RaceFiles":
        """The files of a race in this folder, on as many documents as its plan says."""
        return cls(race / f"measured-{plan.choosing}-{plan.fitting}")

    def read(self, candidate: Candidate) -> CandidateScores | None:
        """What is known of a candidate, without its fitted steps and rankings, which are large."""
        with (
            suppress(OSError, EOFError, ValueError, KeyError, BadZipFile),
            np.load(self._path(candidate)) as file,
        ):
            if file.zip.testzip():  # a part that is read later is damaged
                return None
            measured = CandidateScores(**json.loads(str(file[_TEACHING])))
            measured.scores = _nested(file, "scores")
            for name, by_share in _nested(file, "hybrids").items():
                measured.hybrids[name] = {float(share): by_share[share] for share in by_share}
            documents = _nested(file, "cross-fitted documents")
            for role, scores in _nested(file, "cross-fitted").items():
                setattr(measured.cross_fitted, role, CandidateTable(scores, documents[role]))
            return measured
        return None

    def write(self, candidate: Candidate, measured: CandidateScores) -> None:
        """Keep what was measured. What a trained model would teach is left out."""
        teaching = {"taught_by": measured.taught_by, "teachers": measured.teachers}
        steps = {name: vars(step) for name, step in measured.steps.items()}
        arrays: dict[str, Any] = {_TEACHING: json.dumps(teaching)}
        arrays |= _flat({"scores": measured.scores, "hybrids": measured.hybrids, "steps": steps})
        for role, table in vars(measured.cross_fitted).items():
            arrays |= _flat(table.scores, "cross-fitted", role)
            arrays |= _flat(table.documents, "cross-fitted documents", role)
        rankings = measured.rankings
        if rankings and not candidate.recipe:
            arrays |= _flat({"document_vectors": rankings.document_vectors}, "rankings")
            arrays |= _flat(rankings.lists._asdict(), "rankings")
        self.folder.mkdir(parents=True, exist_ok=True)
        with new_file(self._path(candidate)) as file:
            np.savez(file, **arrays)

    def step(self, candidate: Candidate, name: str) -> FittedStep:
        """The fitted post step of a candidate of this name."""
        with np.load(self._path(candidate)) as file:
            step = _nested(file, "steps", name)
        return FittedStep(step["mean"], step["matrix"], bool(step["queries_only"]))

    def rankings(self, start: Candidate, fitting_set: FittingSet) -> Rankings | None:
        """The lists that the teachers gave for the pseudo-queries, as they were kept for an
        untrained candidate; None: no teacher ranked them.
        """
        with np.load(self._path(start)) as file:
            rankings = _nested(file, "rankings")
        if not rankings:
            return None
        return Rankings(
            queries=fitting_set.pseudo_queries.texts,
            query_vectors=np.empty((0, 0)),  # they are not kept
            document_vectors=rankings["document_vectors"],
            lists=RankedLists(rankings["documents"], rankings["scores"]),
        )

    def _path(self, candidate: Candidate) -> Path:
        return self.folder / f"{file_name(candidate.name)}.npz"


def _flat(value: Any, *names: str) -> dict[str, Any]:
    """The arrays of nested mappings, by the JSON list of their names."""
    if not isinstance(value, Mapping):
        return {json.dumps(names): value}
    arrays: dict[str, Any] = {}
    for name, part in value.items():
        arrays |= _flat(part, *names, str(name))
    return arrays


def _nested(file: Mapping[str, Any], *first_names: str) -> dict[str, Any]:
    """The nested mappings of a flat file, below these names, which are left out: the inverse of
    `_flat`.
    """
    nested: dict[str, Any] = {}
    for key in file:
        if key == _TEACHING:  # the only key that is no list of names
            continue
        names = json.loads(key)
        if tuple(names[: len(first_names)]) != first_names:
            continue
        *parents, last = names[len(first_names) :]
        mapping = nested
        for parent in parents:
            mapping = mapping.setdefault(parent, {})
        mapping[last] = file[key]
    return nested
