"""Is the new model better, or is the difference chance? A paired bootstrap over sentence pairs.

Both models are scored on the same resampled pairs. What makes a pair hard for both models cancels out.
The test covers the choice of test pairs, not the training seed: for the seed, train several times.
Each task is resampled independently. STSBenchmark repeats pairs of STS12 … STS16, so the interval of their average is
slightly too narrow.

Sources: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 13 and 16; for the paired form Koehn,
Statistical Significance Tests for Machine Translation Evaluation (EMNLP 2004), https://aclanthology.org/W04-3250.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from isotrope.errors import UserError
from isotrope.types import Vector

Significance = Literal["better", "worse", "not significant"]

_DIFFERENT = "the models were scored on different tasks"
_BLOCK = 2_000_000  # resampled pairs worked on at a time: some 100 MB, whatever the set's size


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two models on the same pairs. Scores are fractions, averaged over the tasks.

    Attributes:
        before, after: the scores.
        difference: after − before.
        low, high: the 95 % interval of the difference.
        p: two-sided.
        resamples: how many were drawn.
        verdict: "better" or "worse" where p ≤ 0.05, which is exactly where the interval does not contain 0.
        per_task: the same of each task.
    """

    before: float
    after: float
    difference: float
    low: float
    high: float
    p: float
    resamples: int
    verdict: Significance
    per_task: "Mapping[str, Comparison]" = field(default_factory=dict)


def compare(
    before: Mapping[str, tuple[Vector, Vector]],
    after: Mapping[str, tuple[Vector, Vector]],
    resamples: int = 1000,
    seed: int = 0,
) -> Comparison:
    """Test whether Spearman's correlation of ``after`` differs from that of ``before``.

    Every task draws from its own generator, seeded by ``seed`` and its name. The same call gives the same numbers, a
    task's numbers do not depend on the other tasks, and swapping the models changes only the sign.

    Args:
        before: task -> gold scores and one model's cosines, (N,) and (N,), as `isotrope.evaluation.sts.main_pairs`
            gives them.
        after: the same of the other model.
        resamples: at least 100.
        seed: of the draws.
    """
    if before.keys() != after.keys() or any(not np.array_equal(before[t][0], after[t][0]) for t in before):
        raise UserError(_DIFFERENT, "score both on the same tasks")
    found = {}
    for task, (gold, old) in before.items():
        new, once = after[task][1], np.ones((1, len(gold)), dtype=np.int64)  # the pairs as they are
        drawn = _differences(gold, old, new, resamples, task_generator(task, seed))
        found[task] = float(_spearman(gold, old, once)[0]), float(_spearman(gold, new, once)[0]), drawn
    return _over_tasks(found)


def resample(measured: Mapping[str, tuple[Vector, Vector]], resamples: int = 1000, seed: int = 0) -> dict[str, Vector]:
    """One model's Spearman correlation on every resample: task -> (gold, cosines) gives task -> (R,).

    The resamples depend only on the task's name, its size and ``seed``: any two models' draws can be compared later.
    """
    return {
        task: _differences(gold, None, cosines, resamples, task_generator(task, seed))
        for task, (gold, cosines) in measured.items()
    }


def interval(drawn: Vector) -> tuple[float, float]:
    """The bounds that leave 2.5 % of the draws (R,) outside on either side, as order statistics."""
    ordered, tail = np.sort(drawn), (len(drawn) + 1) // 40
    return float(ordered[tail - 1]), float(ordered[len(drawn) - tail])


def compare_draws(before: float, after: float, drawn_before: Vector, drawn_after: Vector) -> Comparison:
    """Two scores and their draws (R,) on the same resamples; of several runs of a method, give the means of both."""
    return _judge(before, after, np.asarray(drawn_after) - np.asarray(drawn_before))


def compare_means(before: Vector, after: Vector, resamples: int = 1000, seed: int = 0) -> Comparison:
    """Test whether the mean of one number a case differs, such as a query's reciprocal rank: (N,), (N,)."""
    return _judge(*_mean_differences(before, after, resamples, np.random.default_rng(seed)))


def compare_tasks(
    before: Mapping[str, Vector], after: Mapping[str, Vector], resamples: int = 1000, seed: int = 0
) -> Comparison:
    """`compare_means` for several tasks, each resampled independently. The difference is the mean over the tasks."""
    if before.keys() != after.keys():
        raise UserError(_DIFFERENT, "score both on the same tasks")
    drawn = {t: _mean_differences(old, after[t], resamples, task_generator(t, seed)) for t, old in before.items()}
    return _over_tasks(drawn)


def task_generator(task: str, seed: int) -> np.random.Generator:
    """A task's own draws: they do not depend on the other tasks."""
    return np.random.default_rng([seed, zlib.crc32(task.encode(errors="surrogateescape"))])


def _mean_differences(
    before: Vector, after: Vector, resamples: int, generator: np.random.Generator
) -> tuple[float, float, Vector]:
    """Mean of (N,), mean of (N,), and their difference on each of R resamples (R,)."""
    change = np.asarray(after) - np.asarray(before)
    drawn = [np.mean(change[generator.integers(len(change), size=len(change))]) for _ in range(resamples)]
    return float(np.mean(before)), float(np.mean(after)), np.array(drawn)


def _differences(
    gold: Vector, old: Vector | None, new: Vector, resamples: int, generator: np.random.Generator
) -> Vector:
    """Spearman of `new` minus Spearman of `old` (None: 0) on each of R resamples: (N,) three times → (R,)."""
    n = len(gold)
    differences = []
    for start in range(0, resamples, step := max(1, _BLOCK // n)):
        rows = min(step, resamples - start)
        picks = generator.integers(n, size=(rows, n))
        # How often each pair was drawn: one bincount for all rows, row r counting from r·n on.
        times = np.bincount((picks + n * np.arange(rows)[:, None]).ravel(), minlength=rows * n).reshape(rows, n)
        scores = _spearman(gold, new, times)
        differences.append(scores if old is None else scores - _spearman(gold, old, times))
    return np.asarray(np.concatenate(differences))


def _spearman(x: Vector, y: Vector, times: npt.NDArray[np.int64]) -> Vector:
    """Spearman where pair i occurs `times[r, i]` times in resample r: (N,), (N,), (R, N) → (R,); 0 where undefined."""
    middle = (len(x) + 1) / 2
    a, b = _ranks(x, times) - middle, _ranks(y, times) - middle  # (R, N), centred
    covariance = np.einsum("rn,rn,rn->r", times, a, b)
    variance = np.einsum("rn,rn,rn->r", times, a, a) * np.einsum("rn,rn,rn->r", times, b, b)
    return np.asarray(np.divide(covariance, np.sqrt(variance), out=np.zeros_like(covariance), where=variance > 0))


def _ranks(values: Vector, times: npt.NDArray[np.int64]) -> Vector:
    """Rank of each value (N,) in each resample (R, N), counted from 1, ties given their mean rank: (R, N).

    The values are sorted once for all resamples: a resample changes how many copies lie below a value, not the order.
    """
    _, level, sizes = np.unique(values, return_inverse=True, return_counts=True)  # equal values share a level
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    copies = np.add.reduceat(times[:, np.argsort(level, kind="stable")], starts, axis=1)  # (R, levels)
    mean_rank = np.cumsum(copies, axis=1) - (copies - 1) / 2
    return np.asarray(mean_rank[:, level], dtype=np.float64)


def _over_tasks(found: Mapping[str, tuple[float, float, Vector]]) -> Comparison:
    """Task -> both scores and the drawn differences (R,): each task, and their mean."""
    per_task = {task: _judge(*one) for task, one in found.items()}
    before, after = (float(np.mean([one[side] for one in found.values()])) for side in (0, 1))
    return _judge(before, after, np.mean([one[2] for one in found.values()], axis=0), per_task)


def _judge(before: float, after: float, drawn: Vector, per_task: Mapping[str, Comparison] | None = None) -> Comparison:
    """Interval, p and verdict from the resampled differences (R,)."""
    r = len(drawn)
    low, high = interval(drawn)  # by order statistics, so that interval and p always agree
    p = min(1.0, 2 * (1 + min(int(np.sum(drawn <= 0)), int(np.sum(drawn >= 0)))) / (r + 1))
    verdict: Significance = "better" if low > 0 else "worse" if high < 0 else "not significant"
    return Comparison(before, after, after - before, low, high, p, r, verdict, per_task or {})
