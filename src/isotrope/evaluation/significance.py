"""Is the new model better, or is the difference chance? A paired bootstrap over sentence pairs.

Both models are scored on the same resampled pairs, so what makes a pair hard for both cancels out.
The test covers the choice of test pairs, not the training seed. STSBenchmark repeats pairs of STS12
… STS16, and each task is resampled independently, so the interval of their average is slightly too
narrow.

Sources: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 13 and 16; for the
paired form Koehn, Statistical Significance Tests for Machine Translation Evaluation (EMNLP 2004),
https://aclanthology.org/W04-3250.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from isotrope.errors import UserError
from isotrope.types import Vector

Significance = Literal["better", "worse", "not significant"]
# A task's cases: numbers whose mean is the score (N,), or gold scores and cosines (N,), (N,),
# judged by Spearman.
Cases: TypeAlias = Vector | tuple[Vector, Vector]

# resampled cases worked on at a time: some 10 MB, which fit the caches of a processor
_BLOCK = 200_000


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two models on the same pairs. Scores are fractions, averaged over the tasks; ``per_task`` has
    each of them.

    The verdict is "better" or "worse" where p ≤ 0.05, which is exactly where the interval does not
    contain 0.
    """

    before: float
    after: float
    difference: float  # after − before
    low: float  # of its 95 % interval
    high: float
    p: float  # two-sided
    resamples: int
    verdict: Significance
    per_task: "Mapping[str, Comparison]" = field(default_factory=dict)


def compare(
    before: Mapping[str, Cases], after: Mapping[str, Cases], resamples: int = 1000, seed: int = 0
) -> Comparison:
    """Test whether the score of ``after`` differs from that of ``before``; both are means over the
    tasks.

    Both are task -> cases, as `isotrope.evaluation.sts.main_pairs` and
    `isotrope.evaluation.suite.cases_of` give them. Every task draws its resamples from its own
    generator, seeded by ``seed`` and its name. The same call gives the same numbers, a task's
    numbers do not depend on the other tasks, and swapping the models changes only the sign.

    Raises UserError where the tasks or their gold scores differ.
    """
    golds = [
        {task: of[0] for task, of in cases.items() if isinstance(of, tuple)}
        for cases in (before, after)
    ]
    if before.keys() != after.keys() or any(
        not np.array_equal(golds[0][t], golds[1][t]) for t in golds[0]
    ):
        raise UserError("the models were scored on different tasks", "score both on the same tasks")
    drawn = {t: _differences(before[t], after[t], resamples, _generator(t, seed)) for t in before}
    per_task = {
        task: judged(_score(before[task]), _score(after[task]), drawn[task]) for task in before
    }
    old = float(np.mean([one.before for one in per_task.values()]))
    new = float(np.mean([one.after for one in per_task.values()]))
    return judged(old, new, np.mean(list(drawn.values()), axis=0), per_task)


def resample(measured: Mapping[str, Cases], resamples: int = 1000) -> dict[str, Vector]:
    """One model's score on R resamples of each task, which depend only on its name and size: task
    -> cases → (R,).
    """
    return {
        task: _differences(None, cases, resamples, _generator(task, 0))
        for task, cases in measured.items()
    }


def interval(drawn: Vector) -> tuple[float, float]:
    """The bounds that leave 2.5 % of the draws (R,) outside on either side, as order statistics."""
    ordered, tail = np.sort(drawn), (len(drawn) + 1) // 40
    return float(ordered[tail - 1]), float(ordered[len(drawn) - tail])


def judged(
    before: float, after: float, drawn: Vector, per_task: Mapping[str, Comparison] | None = None
) -> Comparison:
    """Interval, p and verdict of two scores from the differences (R,) that the resamples gave."""
    low, high = interval(drawn)  # by order statistics, so that interval and p always agree
    p = min(1.0, 2 * (1 + min(int(np.sum(drawn <= 0)), int(np.sum(drawn >= 0)))) / (len(drawn) + 1))
    verdict: Significance = "better" if low > 0 else "worse" if high < 0 else "not significant"
    return Comparison(
        before, after, after - before, low, high, p, len(drawn), verdict, per_task or {}
    )


def compare_means(
    before: Vector, after: Vector, resamples: int = 1000, seed: int = 0
) -> Comparison:
    """Test whether the mean of one number a case differs, such as a query's reciprocal rank: (N,),
    (N,).
    """
    return judged(
        _score(before),
        _score(after),
        _differences(before, after, resamples, np.random.default_rng(seed)),
    )


def _generator(task: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(task.encode(errors="surrogateescape"))])


def _score(cases: Cases) -> float:
    return float(_scores(cases, np.ones((_count(cases), 1)))[0])


def _count(cases: Cases) -> int:
    return len(cases[0] if isinstance(cases, tuple) else cases)


def _differences(
    old: Cases | None, new: Cases, resamples: int, generator: np.random.Generator
) -> Vector:
    """The score of `new` minus that of `old` (None: 0) on each of R resamples of the cases: (R,)."""
    if old is not None and not isinstance(new, tuple):
        old, new = None, new - np.asarray(old)
    n, drawn = _count(new), []
    step = max(1, _BLOCK // n)
    for start in range(0, resamples, step):
        picks = generator.integers(n, size=(min(step, resamples - start), n))
        # How often each case was drawn: one bincount for all; column r counts in steps of R.
        shifted = picks * len(picks) + np.arange(len(picks))[:, None]
        times = np.bincount(shifted.ravel(), minlength=picks.size).reshape(n, -1).astype(float)
        drawn.append(_scores(new, times) - (0 if old is None else _scores(old, times)))
    return np.concatenate(drawn)


def _scores(cases: Cases, times: Vector) -> Vector:
    """The score where case i occurs `times[i, r]` times in resample r: (N, R) → (R,); 0 where it is
    undefined.
    """
    if not isinstance(cases, tuple):
        return np.asarray(cases @ times / len(cases))
    (a, a_squares, of_a), (b, b_squares, of_b) = (_ranks(values, times) for values in cases)
    covariance = np.einsum("nr,nr,nr->r", times, a[of_a], b[of_b])
    variance = a_squares * b_squares
    return np.asarray(
        np.divide(covariance, np.sqrt(variance), out=np.zeros_like(covariance), where=variance > 0)
    )


def _ranks(values: Vector, times: Vector) -> tuple[Vector, Vector, npt.NDArray[np.int64]]:
    """Ranks of the L different values in each resample (N, R), less the mean rank, ties sharing
    theirs: (L, R).

    Also the sum of their squares over the cases (R,), and the level of each value (N,). The values
    are sorted once: a resample changes how many copies lie below a value, not the order.
    """
    _, level, sizes = np.unique(values, return_inverse=True, return_counts=True)
    copies = np.add.reduceat(times[np.argsort(level, kind="stable")], np.cumsum(sizes) - sizes)
    ranks = np.cumsum(copies, axis=0) - (copies + len(values)) / 2
    return ranks, np.einsum("lr,lr,lr->r", copies, ranks, ranks), level


def document_weights(
    of: Sequence[npt.NDArray[np.int64]], resamples: int = 1000, seed: int = 0
) -> list[npt.NDArray[np.float64]]:
    """The weights (R, A), of sum 1, of each task's cases (of documents (A,)) on the same R
    resamples of documents.
    """
    count = 1 + max(int(own.max()) for own in of)
    # (R, N)
    times = np.random.default_rng(seed).multinomial(
        count, np.full(count, 1 / count), size=resamples
    )
    return [times[:, own] / times[:, own].sum(axis=1, keepdims=True) for own in of]
