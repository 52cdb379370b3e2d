"""How good an encoder is on the choosing tasks, alone, with each post step and with BM25 beside it.

Every text is encoded once. The files of a race keep what was measured; what is missing or damaged
there is measured again.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
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
from isotrope.evaluation.search import RankedLists, Search, search_with
from isotrope.improvement.candidates import Candidate, file_name
from isotrope.improvement.cross_fit import CrossFitted, Fold, cross_fit, score_tasks
from isotrope.improvement.plan import Plan
from isotrope.improvement.scores import TaskScores, mean_score
from isotrope.improvement.steps import (
    MAPS,
    QUERY_MAP,
    WHITENINGS,
    FittedStep,
    FittingSet,
    fit_whitening,
)
from isotrope.improvement.tasks import JUDGED_LENGTH, TaskSet, texts_to_encode
from isotrope.improvement.teachers import (
    BM25,
    Rankings,
    TeachingModel,
    list_score,
    search_by_model,
)
from isotrope.store.files import new_file

BM25_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)  # of the scores of a search that adds BM25 to a model
_TEACHING = "teaching"  # the array that holds JSON; the names of the others are lists in JSON


@dataclass
class CandidateScores:
    """What is known of an encoder and of the post steps after it. A step that could not be fitted
    is missing.
    """

    scores: dict[str, TaskScores] = field(default_factory=dict)  # candidate -> its scores
    # candidate -> BM25's share -> the scores of a search that adds BM25
    hybrids: dict[str, dict[float, TaskScores]] = field(default_factory=dict)
    steps: dict[str, FittedStep] = field(default_factory=dict)  # candidate -> its fitted step
    rankings: Rankings | None = None  # that maps were learned from
    taught_by: list[str] = field(default_factory=list)  # the teachers of these rankings
    teachers: dict[str, float] = field(default_factory=dict)  # further models -> their scores
    cross_fitted: CrossFitted = field(default_factory=CrossFitted)  # of the quick steps

    def add(
        self,
        name: str,
        embeddings: Embeddings,
        task_set: TaskSet,
        searches_by_words: Mapping[str, Search],
    ) -> None:
        """Score a candidate, alone and with each share of BM25."""
        self.scores[name] = score_tasks(task_set, embeddings)
        if task_set.searches:
            self.hybrids[name] = {
                share: score_hybrid(embeddings, share, task_set, searches_by_words)
                for share in BM25_SHARES
            }


def score_hybrid(
    embeddings: Embeddings,
    bm25_share: float,
    task_set: TaskSet,
    searches_by_words: Mapping[str, Search],
) -> TaskScores:
    """The scores of a search that adds BM25 to a model's cosines."""
    scores = {}
    for task in task_set.searches:
        searches = [search_by_model(embeddings, task), searches_by_words[task.name]]
        scores[task.name] = task.score_search(search_with(searches, [1 - bm25_share, bm25_share]))
    return scores


def measure_candidate(
    model: SentenceTransformer,
    candidate: Candidate,
    task_set: TaskSet,
    fitting_set: FittingSet,
    teachers: Mapping[str, TeachingModel],
    searches_by_words: Mapping[str, Search],
    folds: Sequence[Fold] = (),
) -> CandidateScores:
    """Measure an encoder with its post steps. Whitening is left out if there are too few texts, and
    maps if nobody teaches them.

    Args:
        model: the encoder of the candidate.
        candidate: which post steps are tried, and how they are named.
        task_set: the choosing tasks.
        fitting_set: what post steps are fitted on.
        teachers: further models that may teach rankings.
        searches_by_words: task -> BM25's search.
        folds: of the fitting set, for the model as it is: its quick steps are cross-fitted.
    """
    fold_tasks = [task for fold in folds for task in fold.task_set.tasks]
    tasks = [*task_set.tasks, *fold_tasks]
    queries, documents = texts_to_encode(tasks, fitting_set, candidate.steps)
    embeddings = embed_texts(model, queries, documents, JUDGED_LENGTH)
    measured = CandidateScores()
    measured.add(candidate.name, embeddings, task_set, searches_by_words)

    if any(step in MAPS for step in candidate.steps):
        _find_teachers(
            measured, candidate, embeddings, task_set, fitting_set, teachers, searches_by_words
        )
    for name, step in candidate.with_steps():
        if not step or (step == QUERY_MAP and routed(model)):
            continue
        with suppress(UserError):  # too few texts for this step
            fitted = _fit_step(step, embeddings, fitting_set, measured.rankings)
            if fitted is not None:
                measured.steps[name] = fitted
                measured.add(name, fitted.apply(embeddings), task_set, searches_by_words)
    if folds:
        steps = {name: step for name, step in candidate.with_steps() if name in measured.steps}
        fit_step = _StepFitter(embeddings, measured.taught_by, teachers)
        measured.cross_fitted = cross_fit(embeddings, steps, folds, fit_step)
    return measured


@dataclass(frozen=True)
class _StepFitter:
    """Fits quick steps to other fitting sets, with the same teachers."""

    embeddings: Embeddings
    taught_by: Sequence[str]
    teachers: Mapping[str, TeachingModel]

    def __call__(self, step: str, fitting_set: FittingSet) -> FittedStep:
        if step in WHITENINGS:
            return fit_whitening(step, self.embeddings, fitting_set)

        chosen = [self.teachers[name] for name in self.taught_by if name != BM25]
        rankings = Rankings.of(self.embeddings, fitting_set, chosen, BM25 in self.taught_by)
        return rankings.fit_map(step, fitting_set.seed)


def _fit_step(
    step: str, embeddings: Embeddings, fitting_set: FittingSet, rankings: Rankings | None
) -> FittedStep | None:
    if step in WHITENINGS:
        return fit_whitening(step, embeddings, fitting_set)
    return rankings.fit_map(step, fitting_set.seed) if rankings else None


def _find_teachers(
    measured: CandidateScores,
    candidate: Candidate,
    embeddings: Embeddings,
    task_set: TaskSet,
    fitting_set: FittingSet,
    teachers: Mapping[str, TeachingModel],
    searches_by_words: Mapping[str, Search],
) -> None:
    """Rank the fitting set by the fused list, if that finds more than the model.

    A further teacher must make a better list than the one without it. Graded pairs say nothing of
    lists: there BM25 teaches, and so does each model with a better score of its own.
    """
    if len(fitting_set.documents) < 2 or not fitting_set.pseudo_queries.texts:
        return  # there is nothing to rank

    own_score = mean_score(measured.scores[candidate.name])
    to_beat = own_score
    with_bm25 = True
    if task_set.searches:
        # Any share may help. On NPL equal shares did not, and the map gained (docs/log.md).
        hybrids = measured.hybrids[candidate.name].values()
        with_bm25 = max(map(mean_score, hybrids)) > own_score
        list_without = list_score([embeddings], with_bm25, task_set.searches, searches_by_words)
        to_beat = max(own_score, list_without)

    for name, teacher in teachers.items():
        if task_set.searches:
            readers = [embeddings, teacher.embeddings]
            score = list_score(readers, with_bm25, task_set.searches, searches_by_words)
            measured.teachers[name] = score
        else:
            measured.teachers[name] = mean_score(score_tasks(task_set, teacher.embeddings))

    better = [name for name, score in measured.teachers.items() if score > to_beat]
    measured.taught_by = [BM25, *better] if with_bm25 else better
    if measured.taught_by:
        chosen = [teachers[name] for name in better]
        measured.rankings = Rankings.of(embeddings, fitting_set, chosen, with_bm25)


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
            for (name, task), array in _arrays(file, "scores"):
                measured.scores.setdefault(name, {})[task] = array  # type: ignore[index]
            for (name, share, task), array in _arrays(file, "hybrids"):
                shares = measured.hybrids.setdefault(name, {})
                shares.setdefault(float(share), {})[task] = array  # type: ignore[index]
            for (role, name, task), array in _arrays(file, "cross-fitted"):
                folds = getattr(measured.cross_fitted, role)
                folds.scores.setdefault(name, {})[task] = array
            for (role, task), places in _arrays(file, "cross-fitted documents"):
                getattr(measured.cross_fitted, role).documents[task] = places
            return measured
        return None

    def write(self, candidate: Candidate, measured: CandidateScores) -> None:
        """Keep what was measured. What a trained model would teach is left out."""
        teaching = {"taught_by": measured.taught_by, "teachers": measured.teachers}
        steps = {name: vars(step) for name, step in measured.steps.items()}
        arrays: dict[str, Any] = {_TEACHING: json.dumps(teaching)}
        arrays |= _named_arrays(["scores"], measured.scores)
        arrays |= _named_arrays(["hybrids"], measured.hybrids)
        arrays |= _named_arrays(["steps"], steps)
        for role, folds in vars(measured.cross_fitted).items():
            arrays |= _named_arrays(["cross-fitted", role], folds.scores)
            arrays |= _named_arrays(["cross-fitted documents", role], folds.documents)
        if measured.rankings and not candidate.recipe:
            rankings = measured.rankings
            parts = {
                "document_vectors": rankings.document_vectors,
                "documents": rankings.lists.documents,
                "scores": rankings.lists.scores,
            }
            arrays |= _named_arrays(["rankings"], parts)
        self.folder.mkdir(parents=True, exist_ok=True)
        with new_file(self._path(candidate)) as file:
            np.savez(file, **arrays)

    def step(self, candidate: Candidate, name: str) -> FittedStep:
        """The fitted post step of a candidate of this name."""
        with np.load(self._path(candidate)) as file:
            parts = {
                part: array for (owner, part), array in _arrays(file, "steps") if owner == name
            }
        return FittedStep(parts["mean"], parts["matrix"], queries_only=bool(parts["queries_only"]))

    def rankings(self, start: Candidate, fitting_set: FittingSet) -> Rankings | None:
        """The lists that the teachers gave for the pseudo-queries, as they were kept for an untrained
        candidate; None: no teacher ranked them.
        """
        with np.load(self._path(start)) as file:
            parts = {part: array for (part,), array in _arrays(file, "rankings")}
        if not parts:
            return None
        lists = RankedLists(parts["documents"], parts["scores"])
        no_vectors = np.empty((0, 0))  # the vectors of queries are not kept
        queries = fitting_set.pseudo_queries.texts
        return Rankings(queries, no_vectors, parts["document_vectors"], lists)

    def _path(self, candidate: Candidate) -> Path:
        return self.folder / f"{file_name(candidate.name)}.npz"


def _named_arrays(names: list[str], value: Any) -> dict[str, Any]:
    """The arrays of nested mappings, by the JSON list of their names."""
    if not isinstance(value, Mapping):
        return {json.dumps(names): value}
    arrays: dict[str, Any] = {}
    for name, part in value.items():
        arrays |= _named_arrays([*names, str(name)], part)
    return arrays


def _arrays(file: Mapping[str, Any], kind: str) -> Iterator[tuple[Sequence[str], Any]]:
    """The names and the array of each entry of one kind."""
    for key in file:
        if key == _TEACHING:
            continue
        entry_kind, *names = json.loads(key)
        if entry_kind == kind:
            yield names, file[key]
