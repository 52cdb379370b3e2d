"""Tests over seeds: the paired t-test, the F test of two spreads, Holm's correction, and how large
a difference a number of seeds can show.

Holm, A simple sequentially rejective multiple test procedure (1979); power of the t-test from the
noncentral t distribution (Cohen, Statistical Power Analysis for the Behavioral Sciences, 1988).
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats
from statsmodels.stats.multitest import multipletests

ALPHA = 0.05
UPPER = 1 - ALPHA / 2  # the end of a two-sided interval
POWER = 0.8
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
    # corrected for the number of comparisons
    p_holm: float | None = None
    p_margin_holm: float | None = None


def paired_test(first: Sequence[float], second: Sequence[float], margin: float = 0.0) -> PairedTest:
    """Paired t-test of first − second: (n,), (n,), in the same order of seeds; n ≥ 1."""
    differences = np.subtract(first, second, dtype=float)
    n = len(differences)
    mean = float(differences.mean())
    if n < 2:
        return PairedTest(n, mean, None)
    sd = float(differences.std(ddof=1))
    if n < FEWEST_SEEDS:
        return PairedTest(n, mean, sd)
    quantile = float(stats.t.ppf(UPPER, n - 1))
    half = quantile * sd / n**0.5
    return PairedTest(
        n,
        mean,
        sd,
        low=mean - half,
        high=mean + half,
        p=_two_sided_p(mean, sd, n),
        p_margin=_two_sided_p(mean - margin, sd, n),
        detectable=detectable(sd, n),
    )


def _two_sided_p(mean: float, sd: float, n: int) -> float:
    """The p value of a mean against 0. If all differences are equal, it is 0 or 1."""
    if sd == 0:
        return float(mean == 0)
    standard_error = sd / n**0.5
    t = abs(mean) / standard_error
    return float(2 * stats.t.sf(t, n - 1))


def spread_test(first: Sequence[float], second: Sequence[float]) -> PairedTest:
    """F test of ln(s₂ / s₁), where s is the standard deviation over seeds of (n,) and (m,); n, m ≥
    1.

    It assumes normally distributed scores and independent rows. Snedecor and Cochran, Statistical
    Methods (1989), chapter 6.
    """
    n, m = len(first), len(second)
    fewest = min(n, m)
    one_model = min(first) == max(first) or min(second) == max(second)
    if fewest < FEWEST_SEEDS or one_model:  # one model has no spread
        return PairedTest(fewest, 0.0, None)

    s1 = float(np.std(first, ddof=1))
    s2 = float(np.std(second, ddof=1))
    ratio = (s2 / s1) ** 2
    law = stats.f(m - 1, n - 1)
    upper = law.ppf(UPPER)
    lower = law.ppf(ALPHA / 2)
    one_sided = min(law.sf(ratio), law.cdf(ratio))
    p = float(min(1.0, 2 * one_sided))
    return PairedTest(
        fewest,
        mean=_half_log(ratio),
        sd=None,
        low=_half_log(ratio / upper),
        high=_half_log(ratio / lower),
        p=p,
        p_margin=p,
        detectable=_half_log(upper / law.ppf(1 - POWER)),
    )


def _half_log(ratio: float) -> float:
    """The logarithm of a ratio of standard deviations, from that of their squares."""
    return float(np.log(ratio) / 2)


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Holm's correction of p values for their number; None (not tested) stays and does not count.

    >>> tuple(value and round(value, 9) for value in holm([0.01, None, 0.04, 0.03]))
    (0.03, None, 0.06, 0.06)
    """
    values = np.array(p, dtype=float)  # None becomes NaN
    is_tested = ~np.isnan(values)
    if is_tested.any():
        _, corrected, *_ = multipletests(values[is_tested], method="holm")
        values[is_tested] = corrected
    return [None if np.isnan(value) else float(value) for value in values]


def power(difference: float, sd: float, n: int) -> float:
    """Probability that a paired t-test over n seeds finds a true difference in its direction; sd is
    that of the differences.

    By scipy: statsmodels' power was NaN for some large differences.
    """
    freedom = n - 1
    shift = abs(difference) / sd * n**0.5
    edge = stats.t.ppf(UPPER, freedom)
    return float(stats.nct.sf(edge, freedom, shift))


def detectable(sd: float, n: int) -> float:
    """The smallest true difference that n seeds find with a power of 0.8."""
    if sd == 0:
        return 0.0

    def missing_power(difference: float) -> float:
        return power(difference, sd, n) - POWER

    return float(optimize.brentq(missing_power, 1e-6 * sd, 10 * sd))


def seeds_needed(difference: float, sd: float, most: int = 1000) -> int | None:
    """The fewest seeds that find a true difference with a power of 0.8; None: more than
    ``most``.
    """
    if sd == 0:
        return FEWEST_SEEDS

    def is_enough(n: int) -> bool:
        return power(difference, sd, n) >= POWER

    counts = range(FEWEST_SEEDS, most + 1)
    index = bisect_left(counts, True, key=is_enough)
    return counts[index] if index < len(counts) else None
