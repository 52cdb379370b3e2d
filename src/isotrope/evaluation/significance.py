"""Is the new model better, or is the difference chance?

Both models are scored on the same cases, so what makes a case hard for both cancels out. The tests
answer for the choice of cases, not for the training seed. There are two of them, because scores
are of two kinds:

- The score is a mean of one number a case: `compare_documents`, a t interval over documents. All
  cases that come from one document go together, because their numbers do.
- The score is Spearman's correlation over graded pairs: a paired bootstrap over pairs.

Each is two-sided at 5 %, so it falsely says *better* about once in forty. With fewer cases than
`FEWEST_DOCUMENTS` or `FEWEST_PAIRS`, nothing is tested. For means, ten cases of which six change
hold the level. The bootstrap of version 0.1 was wrong in 7 to 21 of 100 simulated comparisons of
2 to 30 queries. Of graded pairs, a few dozen say little, and grades of yes or no may be wrong in 7
of 100 (docs/results/few-labels/table.md).

STSBenchmark repeats pairs of STS12 … STS16, and each task is resampled independently, so the
interval of their average is slightly too narrow.

Sources: Cochran, Sampling Techniques (1977), chapter 6, for means over tasks as functions of means;
Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 13 and 16; for the paired
form Koehn, Statistical Significance Tests for Machine Translation Evaluation (EMNLP 2004),
https://aclanthology.org/W04-3250.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy import stats

from isotrope.errors import UserError
from isotrope.evaluation.correlation import ratios
from isotrope.evaluation.results import Indices
from isotrope.types import Matrix, Vector

Significance = Literal["better", "worse", "not significant", "not tested"]

# A task's cases: numbers whose mean is the score (N,), or gold scores and cosines (N,), (N,),
# judged by Spearman.
Cases: TypeAlias = Vector | tuple[Vector, Vector]
TaskCases: TypeAlias = Mapping[str, Cases]  # task -> its cases

LEVEL = 0.95  # of intervals, two-sided
FEWEST_DOCUMENTS = 10  # documents or queries: with fewer, nothing is tested
FEWEST_PAIRS = 50  # graded pairs
# Of five documents, all change in one direction by chance in 2^-5 = 3.1 %, of six in 1.6 %.
FEWEST_CHANGED = 6

# Resampled cases worked on at a time: some 10 MB, which fit the caches of a processor.
_BLOCK = 200_000


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two models on the same cases. Scores are fractions, averaged over the tasks; ``per_task`` has
    each of them.

    The verdict is "better" or "worse" if the interval does not contain 0 and enough cases have
    changed, and "not tested" if there are fewer cases than ``needed``.
    """

    before: float
    after: float
    difference: float  # after − before
    low: float  # of its 95 % interval
    high: float
    p: float  # two-sided
    resamples: int  # of a bootstrap; 0: a t test
    verdict: Significance
    per_task: "Mapping[str, Comparison]" = field(default_factory=dict)
    cases: int = 0  # documents, queries or pairs that were compared
    needed: int = 0  # how many of them a test needs


def compare(
    before: TaskCases, after: TaskCases, resamples: int = 1000, seed: int = 0
) -> Comparison:
    """Test whether the score of ``after`` differs from that of ``before``; both are means over the
    tasks.

    Both are task -> cases, as `isotrope.evaluation.sts.main_pairs` and
    `isotrope.evaluation.suite.cases_of` give them. Tasks of graded pairs draw their resamples each
    from its own generator, seeded by ``seed`` and its name. So the same call gives the same
    numbers, a task's numbers do not depend on the other tasks, and swapping the models changes only
    the sign. All other tasks are compared by `compare_documents`, where each case is a document.

    Raises UserError if the tasks or their gold scores differ.
    """
    _check_same_tasks(before, after)
    if not any(isinstance(cases, tuple) for cases in before.values()):
        documents = _separate_documents(before)
        return compare_documents(before, after, documents)  # type: ignore[arg-type]

    task_differences = []
    per_task = {}
    for task, cases in before.items():
        differences = _differences(cases, after[task], resamples, _generator(task, seed))  # (R,)
        task_differences.append(differences)
        per_task[task] = judged(
            _score(cases),
            _score(after[task]),
            differences,
            cases=_count(cases),
            needed=FEWEST_PAIRS,
        )

    mean_before, mean_after, fewest = _means(per_task)
    return judged(
        mean_before,
        mean_after,
        np.mean(task_differences, axis=0),
        per_task,
        cases=fewest,
        needed=FEWEST_PAIRS,
    )


def _means(per_task: Mapping[str, Comparison]) -> tuple[float, float, int]:
    """The mean scores of both models over the tasks, and the fewest cases that a task has."""
    tasks = per_task.values()
    before = np.mean([task.before for task in tasks])
    after = np.mean([task.after for task in tasks])
    fewest = min(task.cases for task in tasks)
    return float(before), float(after), fewest


def _check_same_tasks(before: TaskCases, after: TaskCases) -> None:
    are_same = before.keys() == after.keys() and all(
        np.array_equal(_gold(before[task]), _gold(after[task])) for task in before
    )
    if not are_same:
        raise UserError(
            "the models were scored on different tasks",
            "score both on the same tasks",
            code="different-tasks",
        )


def _gold(cases: Cases) -> Vector:
    """The gold scores (N,); of a mean, which has none, as many zeros."""
    return cases[0] if isinstance(cases, tuple) else np.zeros(len(cases))


def compare_means(before: Vector, after: Vector) -> Comparison:
    """Test whether the mean of one number a case differs, such as a query's reciprocal rank: (N,),
    (N,).
    """
    return _compare_task(before, after, np.arange(len(before)))


def compare_documents(
    before: Mapping[str, Vector],
    after: Mapping[str, Vector],
    documents: Mapping[str, Indices],
) -> Comparison:
    """Test whether the mean over tasks of the mean over their cases differs: a t interval over
    documents.

    All cases that come from one document go together. The score is a function of means, so its
    variance is that of the documents' linearised contributions.

    Args:
        before: task -> one number a case (N,).
        after: the same of the other model, on the same cases.
        documents: task -> the document that each case comes from (N,), over all tasks.
    """
    size = 1 + max(int(ids.max()) for ids in documents.values())
    contributions = np.zeros(size)  # what each document adds to the difference of the means
    changed_ids: set[int] = set()
    per_task = {}
    for task in before:
        ids = documents[task]
        per_task[task] = _compare_task(before[task], after[task], ids)
        differences = after[task] - before[task]
        contributions += _contributions(differences, ids, size) / len(before)
        changed_ids.update(ids[differences != 0])

    mean_before, mean_after, fewest = _means(per_task)
    return _t_comparison(
        mean_before,
        mean_after,
        contributions,
        cases=fewest,
        changed=len(changed_ids),
        per_task=per_task,
    )


def _separate_documents(before: TaskCases) -> dict[str, Indices]:
    """A document for each case of each task, none of which is in two tasks."""
    documents = {}
    first = 0
    for task, cases in before.items():
        end = first + _count(cases)
        documents[task] = np.arange(first, end)
        first = end
    return documents


def _compare_task(before: Vector, after: Vector, documents: Indices) -> Comparison:
    """`compare_documents` for one task."""
    differences = np.asarray(after) - before  # (N,)
    ids, rows = np.unique(documents, return_inverse=True)
    return _t_comparison(
        float(np.mean(before)),
        float(np.mean(after)),
        _contributions(differences, rows, len(ids)),
        cases=len(ids),
        changed=len(np.unique(documents[differences != 0])),
    )


def _contributions(differences: Vector, documents: Indices, size: int) -> Vector:
    """What each of M documents adds to the mean of differences (N,), less its expectation: (M,).

    The sum of their squares is the variance of the mean.
    """
    counts = np.bincount(documents, minlength=size)
    sums = np.bincount(documents, differences, minlength=size)
    residuals = (sums - counts * differences.mean()) / len(differences)
    present = int(np.count_nonzero(counts))
    correction = sqrt(present / max(1, present - 1))
    return np.asarray(residuals * correction)


def _t_comparison(
    before: float,
    after: float,
    contributions: Vector,
    *,
    cases: int,
    changed: int,
    per_task: Mapping[str, Comparison] | None = None,
) -> Comparison:
    """Interval, p and verdict of a difference whose variance is the sum of squares of contributions
    (M,).
    """
    difference = after - before
    error = sqrt(float(contributions @ contributions))
    degrees = max(1, cases - 1)
    half_width = error * float(stats.t.ppf((1 + LEVEL) / 2, degrees))
    low = difference - half_width
    high = difference + half_width
    p = 1.0
    if error > 0:
        p = 2 * float(stats.t.sf(abs(difference) / error, degrees))
    elif difference:
        p = 0.0

    verdict = _verdict(low, high)
    if changed < FEWEST_CHANGED:
        verdict = "not significant"
    if cases < FEWEST_DOCUMENTS:
        verdict = "not tested"
    return Comparison(
        before,
        after,
        difference,
        low,
        high,
        p,
        resamples=0,
        verdict=verdict,
        per_task=per_task or {},
        cases=cases,
        needed=FEWEST_DOCUMENTS,
    )


def _verdict(low: float, high: float) -> Significance:
    """What the interval of a difference says."""
    if low > 0:
        return "better"
    return "worse" if high < 0 else "not significant"


def resample(measured: TaskCases, resamples: int = 1000) -> dict[str, Vector]:
    """One model's score on R resamples of each task's cases: task -> (R,).

    Which cases are drawn depends only on the task's name and size.
    """
    scores = {}
    for task, cases in measured.items():
        scores[task] = _differences(None, cases, resamples, _generator(task))
    return scores


def interval(drawn: Vector) -> tuple[float, float]:
    """The bounds that leave 2.5 % of the draws (R,) outside on either side, as order statistics."""
    ordered = np.sort(drawn)
    tail = (len(drawn) + 1) // 40
    return float(ordered[tail - 1]), float(ordered[len(drawn) - tail])


def judged(
    before: float,
    after: float,
    drawn: Vector,
    per_task: Mapping[str, Comparison] | None = None,
    *,
    cases: int = 0,
    needed: int = 0,
) -> Comparison:
    """Interval, p and verdict of two scores from the differences (R,) that the resamples gave.

    With fewer ``cases`` than ``needed``, nothing is tested.
    """
    low, high = interval(drawn)  # by order statistics, so that interval and p always agree
    at_most_zero = np.sum(drawn <= 0)
    at_least_zero = np.sum(drawn >= 0)
    tail = 1 + int(min(at_most_zero, at_least_zero))
    p = min(1.0, 2 * tail / (len(drawn) + 1))

    return Comparison(
        before,
        after,
        after - before,
        low,
        high,
        p,
        resamples=len(drawn),
        verdict=_verdict(low, high) if cases >= needed else "not tested",
        per_task=per_task or {},
        cases=cases,
        needed=needed,
    )


def _generator(task: str, seed: int = 0) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(task.encode(errors="surrogateescape"))])


def _score(cases: Cases) -> float:
    each_once = np.ones((_count(cases), 1))
    return float(_scores(cases, each_once)[0])


def _count(cases: Cases) -> int:
    return int(np.shape(cases)[-1])  # of (N,), or of two (N,)


def _differences(
    old: Cases | None, new: Cases, resamples: int, generator: np.random.Generator
) -> Vector:
    """The score of ``new`` minus that of ``old`` (None: 0) on each of R resamples of the cases
    (R,).
    """
    if old is not None and not isinstance(new, tuple):
        new = new - np.asarray(old)
        old = None

    count = _count(new)
    step = max(1, _BLOCK // count)
    blocks = []
    for start in range(0, resamples, step):
        block_size = min(step, resamples - start)
        picks = generator.integers(count, size=(block_size, count))
        times = _times_drawn(picks)
        scores = _scores(new, times)
        if old is not None:
            scores = scores - _scores(old, times)
        blocks.append(scores)
    return np.concatenate(blocks)


def _times_drawn(picks: Indices) -> Matrix:
    """How often each case is among the picks (R, N) of each resample: (N, R)."""
    resamples, count = picks.shape

    # One bincount for all: column r counts in steps of R.
    shifted = picks * resamples + np.arange(resamples)[:, None]
    times = np.bincount(shifted.ravel(), minlength=picks.size)
    return times.reshape(count, resamples).astype(float)


def _scores(cases: Cases, times: Matrix) -> Vector:
    """The score of each resample, in which case i occurs ``times[i, r]`` times: (N, R) → (R,).

    It is the mean of the cases, or Spearman's correlation if they are a pair (gold, cosines); 0
    where that is undefined.
    """
    if not isinstance(cases, tuple):
        return np.asarray(cases @ times / len(cases))

    gold, cosines = cases
    gold_ranks = _resampled_ranks(gold, times)
    cosine_ranks = _resampled_ranks(cosines, times)
    covariance = np.einsum(
        "nr,nr,nr->r",
        times,
        gold_ranks.ranks[gold_ranks.level_of],
        cosine_ranks.ranks[cosine_ranks.level_of],
    )
    deviations = np.sqrt(gold_ranks.square_sums * cosine_ranks.square_sums)
    return ratios(covariance, deviations)


class _ResampledRanks(NamedTuple):
    """Ranks of the L different values in each of R resamples; ties share theirs."""

    ranks: Matrix  # (L, R), less the mean rank
    square_sums: Vector  # (R,) of these ranks over the cases
    level_of: Indices  # (N,) which of the different values each case has


def _resampled_ranks(values: Vector, times: Matrix) -> _ResampledRanks:
    """Ranks of values (N,) that occur ``times`` (N, R) times.

    The values are sorted once: a resample changes how many copies are below a value, not the order.
    """
    _, level_of, sizes = np.unique(values, return_inverse=True, return_counts=True)
    sorted_times = times[np.argsort(level_of, kind="stable")]
    starts = np.cumsum(sizes) - sizes
    copies = np.add.reduceat(sorted_times, starts)  # (L, R)
    ranks = np.cumsum(copies, axis=0) - (copies + len(values)) / 2
    square_sums = np.einsum("lr,lr,lr->r", copies, ranks, ranks)
    return _ResampledRanks(ranks, square_sums, level_of)
