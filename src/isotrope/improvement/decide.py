"""Which candidate is the best for these documents? Or is the model that we have as good as any?

Every candidate is scored on the same tasks and compared with "keep", the model as it is. A paired
bootstrap draws documents, with all that the tasks ask of them, because these scores go together. Of
many candidates, one is the best by luck. So the p-values are corrected for their number by the
largest statistic of each resample (max-T: Westfall and Young, Resampling-Based Multiple Testing,
1993). It is less strict than Bonferroni's correction, since candidates that resemble each other
count as fewer.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from isotrope.evaluation.document_tasks import HALVES
from isotrope.evaluation.significance import document_weights, interval
from isotrope.evaluation.verdict import Verdict
from isotrope.types import Matrix, Vector

AS_IS = "keep"
_LEVEL = 0.05
_RESAMPLES = 2000
# a difference of so many half intervals is found in 80 of 100 cases: (1.96 + 0.84) / 1.96
_POWER = 1.43

TaskScores = Mapping[str, Vector]  # task -> (Q,) one number a case, such as its reciprocal rank
Places = npt.NDArray[np.int64]  # (Q,) of which document each case is


@dataclass(frozen=True, slots=True)
class CandidateGain:
    """What a candidate changes, as the mean over the tasks, in fractions."""

    gain: float  # score − score of "keep"
    low: float  # of the 95 % interval of the gain, for this candidate alone
    high: float
    p: float  # one-sided, corrected for the number of candidates
    # the gain on the tasks that do not resemble its training; None: all tasks resemble it
    others: float | None
    allowed: bool  # whether it may be chosen


def judging(tasks: Iterable[str]) -> list[str]:
    """The tasks that judge: all but "half → half", or that one where it is alone.

    Of good models and long documents, labels gave another order than the halves did (docs/log.md).
    """
    found = list(tasks)
    return [task for task in found if task != HALVES] or found


def mean_score(scores: TaskScores) -> float:
    """Mean over the tasks that judge of the mean over their queries."""
    return float(np.mean([np.mean(scores[task]) for task in judging(scores)]))


def choose_candidate(
    scores: Mapping[str, TaskScores],
    alike: Mapping[str, frozenset[str]] | None = None,
    documents: Mapping[str, Places] | None = None,
    *,
    kept: Collection[str] = (),
    milder: Mapping[str, str] | None = None,
    resamples: int = _RESAMPLES,
    seed: int = 0,
) -> tuple[str, dict[str, CandidateGain]]:
    """The name of the chosen candidate, and what each candidate but "keep" gains.

    A candidate is allowed if its gain is significant (p ≤ 0.05) and if it is not significantly
    worse on the tasks that do not resemble its training. "half → half" counts among these only
    where there is no other. Of the allowed ones the largest gain is chosen, else "keep". But one of
    the two that cost less or change less of the model is chosen in its place unless its gain is
    significantly smaller (uncorrected): the best candidate after which documents keep their
    vectors, or the same training averaged with the model that it began with.

    Args:
        scores: candidate -> task -> (Q,); "keep" is one of them, and all have the same tasks and
            cases.
        alike: candidate -> the tasks that resemble what it was trained on.
        documents: task -> of which document each of its cases is; where it is left out, case i is
            of document i.
        kept: the candidates after which documents keep their vectors.
        milder: a training -> the same one averaged with the model that it began with.
        resamples: at least 100.
        seed: of the draws.
    """
    names = [name for name in scores if name != AS_IS]
    changes = {
        # (C, Q)
        task: np.array([np.asarray(scores[name][task]) - old for name in names]).reshape(
            len(names), len(old)
        )
        for task, old in scores[AS_IS].items()
    }
    judges = judging(changes)
    points = {task: change.mean(axis=1) for task, change in changes.items()}  # (C,)
    of = [
        (documents or {}).get(task, np.arange(change.shape[1])) for task, change in changes.items()
    ]
    weights = document_weights(of, resamples, seed)
    # of (C, R)
    draws = {
        task: change @ own.T for (task, change), own in zip(changes.items(), weights, strict=True)
    }
    drawn = np.mean([draws[task] for task in judges], axis=0)  # (C, R)
    p = _corrected(np.mean([points[task] for task in judges], axis=0), drawn)
    gains = {}
    for row, name in enumerate(names):
        own = {task: float(point[row]) for task, point in points.items()}
        unlike = judging(task for task in own if task not in (alike or {}).get(name, ()))
        others = float(np.mean([own[task] for task in unlike])) if unlike else None
        harmless = (
            bool(unlike)
            and interval(np.mean([draws[task][row] for task in unlike], axis=0))[1] >= 0
        )
        allowed = bool(p[row] <= _LEVEL) and harmless
        gains[name] = CandidateGain(
            float(np.mean([own[task] for task in judges])),
            *interval(drawn[row]),
            float(p[row]),
            others,
            allowed,
        )
    ordered = sorted(
        (name for name in names if gains[name].allowed), key=lambda name: -gains[name].gain
    )
    if not ordered:
        return AS_IS, gains
    best = ordered[0]
    cheap, mild = (
        next((name for name in ordered if name in kept), best),
        (milder or {}).get(best, best),
    )
    for one in (cheap, mild):
        if one != best and one in ordered:
            more = drawn[names.index(best)] - drawn[names.index(one)]  # (R,)
            if interval(more)[0] <= 0:
                return one, gains
    return best, gains


def choose_in_turn(
    scores: Mapping[str, TaskScores],
    alike: Mapping[str, frozenset[str]],
    documents: Mapping[str, Places],
    crossed: Mapping[str, TaskScores],
    crossed_of: Mapping[str, Places],
    *,
    kept: Collection[str] = (),
    milder: Mapping[str, str] | None = None,
    seed: int = 0,
) -> tuple[str, dict[str, CandidateGain]]:
    """As `choose_candidate`, but candidates that more documents judge come first, and are judged by
    all of these.

    Another one is chosen if it is allowed against "keep" and against the best of these.

    ``crossed`` has the scores of some candidates, "keep" among them, on further cases of the same
    tasks, which are of the documents ``crossed_of``. Without it, all is as in `choose_candidate`.
    """
    choice, gains = choose_candidate(scores, alike, documents, kept=kept, milder=milder, seed=seed)
    if not crossed:
        return choice, gains
    every = {name: more_cases(scores[name], of) for name, of in crossed.items()}
    first = 1 + max(int(own.max()) for own in documents.values())
    places = more_cases(documents, {task: first + own for task, own in crossed_of.items()})
    best, quick = choose_candidate(every, documents=places, kept=kept, milder=milder, seed=seed)
    others = {name: of for name, of in scores.items() if name not in crossed}
    found, _ = choose_candidate(
        {**others, AS_IS: scores[best]}, alike, documents, kept=kept, milder=milder, seed=seed
    )
    return found if found != AS_IS and gains[found].allowed else best, gains | quick


def more_cases(
    one: Mapping[str, npt.NDArray[Any]], two: Mapping[str, npt.NDArray[Any]]
) -> dict[str, npt.NDArray[Any]]:
    """The cases of both, task by task."""
    return {task: np.concatenate([own, two[task]]) for task, own in one.items()}


def best_search(
    scores: Mapping[str, TaskScores],
    searches: Mapping[str, TaskScores],
    documents: Mapping[str, Places],
    seed: int,
) -> dict[str, Any] | None:
    """Of some other searches with the model as it is, the one that gains most: ``name``, ``gain``,
    ``low``, ``high``.

    ``scores`` has those of "keep", and ``searches`` theirs on the same cases; None: there are no
    searches.
    """
    if not searches:
        return None
    _, gains = choose_candidate({AS_IS: scores[AS_IS], **searches}, documents=documents, seed=seed)
    name, gain = max(gains.items(), key=lambda one: one[1].gain)
    return {"name": name, "gain": gain.gain, "low": gain.low, "high": gain.high}


def race_verdict(
    scores: tuple[TaskScores, TaskScores],
    gains: Mapping[str, CandidateGain],
    choice: str,
    best: str,
    *,
    model: str,
    judge: tuple[str, str],
    needed: str = "",
) -> Verdict:
    """What the race says of the model that was given, named ``model``.

    ``gains`` and ``choice`` are as `choose_candidate` gives them; there are no gains if nothing was
    measured. ``best`` is the choice, or if that is "keep" the candidate that gains most, and
    ``scores`` are of "keep" and of it. ``judge`` is what judged and what it measures, as `Verdict`
    has them, and ``needed`` what a race with trainings needs, if there was no time for one.
    """
    if not gains:
        return Verdict.not_tested(
            before=model, after="other models", advice=needed or f"Keep {model}."
        )
    gain = gains[best]
    advice = f"Use the new model ({best}) for documents like these."
    if choice == AS_IS:
        seen = 100 * _POWER * (gain.high - gain.low) / 2
        advice = (
            f"Keep {model}: of {len(gains)} candidates none is significantly better. "
            f"Differences under about {seen:.1f} points cannot be seen with {judge[0]}."
        )
    return Verdict(
        "no difference found" if choice == AS_IS else "better",
        model,
        best,
        *judge,
        (mean_score(scores[0]), mean_score(scores[1])),
        gain.gain,
        gain.low,
        gain.high,
        gain.p,
        f"{advice} No training was tried: {needed}." if needed else advice,
    )


def _corrected(points: Vector, drawn: Matrix) -> Vector:
    """One-sided p-values (C,) of gains (C,) with their draws (C, R), corrected by max-T."""
    if not len(points):
        return points
    spread = drawn.std(axis=1, ddof=1)  # (C,)
    live = spread > 0  # the others are equal to "keep" in every case
    p = np.ones(len(points))
    if live.any():
        largest = ((drawn[live] - points[live, None]) / spread[live, None]).max(axis=0)  # (R,)
        reached = largest[None, :] >= (points[live] / spread[live])[:, None]  # (C', R)
        p[live] = (1 + reached.sum(axis=1)) / (1 + drawn.shape[1])
    return p
