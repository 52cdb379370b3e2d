"""A pseudo-random order of n rows that is computed, not stored."""

from typing import Any

import numpy as np
import numpy.typing as npt

RowIds = npt.NDArray[np.int64]
_Integers = npt.NDArray[Any]  # of uint64: NumPy's types take its product with an int for signed
_MASK = (1 << 64) - 1
_ROUNDS = 8
_STEP = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: splitmix64's increment


def _scramble(values: _Integers) -> _Integers:
    """splitmix64's finaliser (Steele, Lea, Flood 2014; constants by Stafford).

    The products wrap around at 2^64.
    """
    values = values ^ (values >> 30)
    values = values * 0xBF58476D1CE4E5B9
    values = values ^ (values >> 27)
    values = values * 0x94D049BB133111EB
    values = values ^ (values >> 31)
    return values


def derive(seed: int, stream: int) -> int:
    """A seed for one of many independent streams (an epoch, a sample) of a run's seed."""
    return _mix(_mix(seed) ^ stream)


def _mix(value: int) -> int:
    stepped = (value + _STEP) & _MASK
    scrambled = _scramble(np.array([stepped], np.uint64))
    return int(scrambled[0])


def evenly(n: int, count: int) -> list[int]:
    """At most ``count`` of ``n`` places, rising and evenly spread: 4 of 10 are [0, 2, 5, 7]."""
    count = min(count, n)
    return [place * n // count for place in range(count)]


class Permutation:
    """A bijection of range(n) chosen by a seed: `perm[k]` is the row at place k.

    No memory grows with n, which is at most 2^62. A Feistel network (Luby, Rackoff 1988) permutes
    the smallest domain of 2^(2b) >= n places, whatever its round function. Places outside range(n)
    are sent through again until they fall inside (cycle walking: Black, Rogaway 2002). So the k-th
    row of epoch e is a pure function of (seed, e, k), and a run resumes exactly and at once.
    """

    def __init__(self, n: int, seed: int) -> None:
        self._n = n
        bits = (n - 1).bit_length()
        # at least 2^6 places: narrower halves have too few round functions to reach most orders of
        # a handful of rows
        self._half = max(3, (bits + 1) // 2)
        self._keys = [derive(seed, round) for round in range(_ROUNDS)]

    def __getitem__(self, places: int | npt.NDArray[np.integer[Any]]) -> RowIds:
        """Rows (any shape, int64) at places in range(n); an integer gives an array of shape ()."""
        places = np.asarray(places)
        rows = self._cipher(places.astype(np.uint64).ravel())
        outside = np.flatnonzero(rows >= self._n)
        while outside.size:
            rows[outside] = self._cipher(rows[outside])
            outside = np.flatnonzero(rows >= self._n)
        return rows.astype(np.int64).reshape(places.shape)

    def _cipher(self, places: _Integers) -> _Integers:
        low = (1 << self._half) - 1
        left = places >> self._half
        right = places & low
        for key in self._keys:
            scrambled = _scramble(right ^ key) & low
            left, right = right, left ^ scrambled
        return (left << self._half) | right
