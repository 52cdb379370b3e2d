"""The computed order: a bijection for every size, different by seed."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isotrope.text.permutation import Permutation, derive, evenly


@given(n=st.integers(1, 5000), seed=st.integers(-(2**70), 2**70))
def test_it_is_a_bijection_for_every_size_and_seed(n: int, seed: int) -> None:
    perm = Permutation(n, seed)
    rows = perm[np.arange(n)]
    assert rows.dtype == np.int64
    assert np.array_equal(np.sort(rows), np.arange(n))


@given(n=st.integers(1, 2**62), seed=st.integers(0, 2**64 - 1), data=st.data())
def test_one_place_gives_the_same_row_alone_and_in_company(n: int, seed: int, data: st.DataObject) -> None:
    """Large sizes too: shifts and products of 64-bit integers must not overflow into neighbours."""
    places = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=20, unique=True)))
    perm = Permutation(n, seed)
    rows = perm[places]
    assert rows.min() >= 0
    assert rows.max() < n
    assert len(np.unique(rows)) == len(places)
    assert [int(perm[int(place)]) for place in places] == rows.tolist()
    assert perm[places.reshape(1, -1)].shape == (1, len(places))


def test_it_looks_random() -> None:
    n = 100_000
    places = np.arange(n)
    first, second = Permutation(n, 1)[places], Permutation(n, 2)[places]
    # a random order moves a row n / 3 places on average, keeps one neighbour pair, agrees with another in one place
    for order in (first, second):
        assert abs(np.abs(order - places).mean() / n - 1 / 3) < 0.01
        assert abs(np.corrcoef(order, places)[0, 1]) < 0.02
        assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 0.02
        assert np.count_nonzero(np.diff(order) == 1) < 10
    assert np.count_nonzero(first == second) < 10


def test_streams_of_neighbouring_seeds_do_not_meet() -> None:
    assert len({derive(seed, stream) for seed in range(-50, 50) for stream in range(-1, 100)}) == 100 * 101


def test_places_are_spread_evenly() -> None:
    assert evenly(10, 4) == [0, 2, 5, 7]
    assert evenly(3, 9) == [0, 1, 2]
    assert evenly(5, 0) == evenly(0, 5) == []
