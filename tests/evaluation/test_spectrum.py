"""The spectrum of a space against its definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotrope.errors import UserError
from isotrope.evaluation.geometry import effective_rank, iso_score, variance_shares
from oracle import isoscore


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 40), st.integers(2, 9), st.integers(0, 10**6))
def test_iso_score_equals_its_algorithm(rows, dimensions, seed):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((rows, dimensions)) * generator.exponential(size=dimensions) + 3
    assert iso_score(x) == pytest.approx(isoscore.iso_score(x), abs=1e-9)


def whitened(rows, dimensions):
    """Rows whose covariance is exactly a multiple of the identity."""
    x = np.random.default_rng(0).standard_normal((rows, dimensions))
    return np.linalg.qr(x - x.mean(axis=0))[0]


def test_iso_score_has_the_properties_its_paper_asks_for():
    isotropic = whitened(300, 12)
    assert iso_score(isotropic) == pytest.approx(1, abs=1e-12)
    assert iso_score(np.random.default_rng(1).standard_normal((20_000, 8))) == pytest.approx(1, abs=0.01)
    assert iso_score(np.outer(np.arange(30.0), np.arange(1.0, 6.0))) == pytest.approx(0, abs=1e-12)
    skewed = isotropic * np.linspace(1, 3, 12)
    rotation = np.linalg.qr(np.random.default_rng(2).standard_normal((12, 12)))[0]
    for same in (skewed + 100, 1e-3 * skewed, skewed @ rotation, skewed[::-1]):  # mean, scale, rotation, order
        assert iso_score(same) == pytest.approx(iso_score(skewed), abs=1e-9)
    for used in range(1, 13):  # linear in the dimensions used evenly, and they are counted
        assert iso_score(isotropic * (np.arange(12) < used)) == pytest.approx((used - 1) / 11, abs=1e-12)


def test_spectrum_of_known_spaces():
    shares = variance_shares(whitened(50, 4) * [2.0, 1.0, 1.0, 0.0])
    np.testing.assert_allclose(shares, [4 / 6, 1 / 6, 1 / 6, 0], atol=1e-12)
    assert effective_rank(np.full(5, 0.2)) == pytest.approx(5)
    assert effective_rank(np.array([1.0, 0.0])) == 1


@pytest.mark.parametrize(
    ("rows", "words"),
    [(np.ones((5, 3)), "all equal"), (np.ones((1, 3)), "shape"), (np.array([[1.0, np.nan], [0, 1]]), "not finite")],
)
def test_iso_score_refuses_what_has_no_spread(rows, words):
    with pytest.raises(UserError, match=words):
        iso_score(rows)


def test_effective_rank_counts_equal_directions() -> None:
    assert effective_rank(np.full(7, 1 / 7)) == pytest.approx(7)
    assert effective_rank(np.array([1.0, 0.0])) == pytest.approx(1)
    line = np.outer(np.arange(5.0), [1.0, 2.0, 2.0])
    assert effective_rank(variance_shares(line)) == pytest.approx(1)
