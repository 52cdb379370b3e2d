"""Tests over seeds: the paired t-test, Holm's correction, and how large a difference a number of
seeds can show.

Holm, A simple sequentially rejective multiple test procedure (1979); power of the t-test from the
noncentral t distribution (Cohen, Statistical Power Analysis for the Behavioral Sciences, 1988).
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from scipy import optimize, stats

ALPHA, POWER = 0.05, 0.8
# seeds: with two, a t-test has one degree of freedom and an interval of 12.7 standard errors
FEWEST_SEEDS = 3


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Differences of two rows, seed by seed; None if they have fewer than three seeds in common."""

    n: int
    mean: float
    sd: float | None
    low: float | None = None  # this and the next bound the mean with 95 % confidence
    high: float | None = None
    p: float | None = None  # two-sided, against no difference
    p_margin: float | None = None  # against a difference of the margin
    # the smallest true difference that so many seeds find with a power of 0.8
    detectable: float | None = None


def paired_test(first: Sequence[float], second: Sequence[float], margin: float = 0.0) -> PairedTest:
    """Paired t-test of first − second: (n,), (n,), in the same order of seeds; n ≥ 1."""
    change = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    n, mean = len(change), float(change.mean())
    sd = float(change.std(ddof=1)) if n > 1 else None
    if sd is None or n < FEWEST_SEEDS:
        return PairedTest(n, mean, sd)
    half = float(stats.t.ppf(1 - ALPHA / 2, n - 1)) * sd / n**0.5

    def p(mean: float) -> float:
        """Two-sided, of a mean against 0. If all differences are equal, p is 0 or 1."""
        if sd == 0:
            return float(mean == 0)
        return float(2 * stats.t.sf(abs(mean) / (sd / n**0.5), n - 1))

    return PairedTest(
        n, mean, sd, mean - half, mean + half, p(mean), p(mean - margin), detectable(sd, n)
    )


def spread_test(first: Sequence[float], second: Sequence[float]) -> PairedTest:
    """F test of ln(s₂ / s₁), where s is the standard deviation over seeds of (n,) and (m,); n, m ≥
    1.

    It assumes normally distributed scores and independent rows. Snedecor and Cochran, Statistical
    Methods (1989), chapter 6.
    """
    n, m = len(first), len(second)
    if min(n, m) < FEWEST_SEEDS or any(min(values) == max(values) for values in (first, second)):
        return PairedTest(min(n, m), 0.0, None)  # one model has no spread
    s = [float(np.std(values, ddof=1)) for values in (first, second)]
    law, ratio = stats.f(m - 1, n - 1), (s[1] / s[0]) ** 2
    low, high = (float(np.log(ratio / law.ppf(tail)) / 2) for tail in (1 - ALPHA / 2, ALPHA / 2))
    p = float(min(1.0, 2 * min(law.sf(ratio), law.cdf(ratio))))
    least = float(np.log(law.ppf(1 - ALPHA / 2) / law.ppf(1 - POWER)) / 2)
    return PairedTest(min(n, m), float(np.log(ratio) / 2), None, low, high, p, p, least)


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Holm's correction of p values for their number; None (not tested) stays and does not count.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    tested = sorted((value, i) for i, value in enumerate(p) if value is not None)
    raised = (min(1.0, (len(tested) - rank) * value) for rank, (value, _) in enumerate(tested))
    corrected = dict(zip((i for _, i in tested), accumulate(raised, max), strict=True))
    return [corrected.get(i) for i in range(len(p))]


def power(difference: float, sd: float, n: int) -> float:
    """Probability that a paired t-test over n seeds finds a true difference; sd is that of the
    differences.
    """
    shift, edge = difference / sd * n**0.5, stats.t.ppf(1 - ALPHA / 2, n - 1)
    wrong_way = stats.nct.cdf(-edge, n - 1, shift)  # NaN where scipy finds it too small to tell
    return float(stats.nct.sf(edge, n - 1, shift) + np.nan_to_num(wrong_way))


def detectable(sd: float, n: int) -> float:
    """The smallest true difference that n seeds find with a power of 0.8."""
    return sd and float(optimize.brentq(lambda d: power(d, sd, n) - POWER, 1e-6 * sd, 10 * sd))


def seeds_needed(difference: float, sd: float, most: int = 1000) -> int | None:
    """The fewest seeds that find a true difference with a power of 0.8; None: more than ``most``."""
    counts = range(FEWEST_SEEDS, most + 1)
    place = bisect_left(counts, True, key=lambda n: sd == 0 or power(difference, sd, n) >= POWER)
    return counts[place] if place < len(counts) else None
