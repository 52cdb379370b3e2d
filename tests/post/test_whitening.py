"""Whitening equals its definition."""

import numpy as np
import pytest

from isotrope.errors import UserError
from isotrope.post.whitening import whitening
from oracle import baselines as naive
from toy_vectors import anisotropic


@pytest.mark.parametrize("k", [None, 1, 3, 6])
def test_whitening_has_the_identity_as_covariance(k):
    x = anisotropic()
    mean, matrix = whitening(x, k)
    z = (x - mean) @ matrix
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(k or 6), atol=1e-9)


def test_whitening_equals_its_definition_up_to_signs():
    x = anisotropic(rows=60)
    mean, matrix = whitening(x, 4)
    np.testing.assert_allclose(np.abs((x - mean) @ matrix), np.abs(naive.whitening(x, 4)), atol=1e-6)


@pytest.mark.parametrize("exponent", [0.0, 0.1, 0.25, 0.5])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 1e-3)])
def test_soft_whitening_equals_its_definition_up_to_signs(exponent, dtype, tolerance):
    x = anisotropic(rows=60).astype(dtype)
    mean, matrix = whitening(x, 4, exponent)
    found, wanted = np.abs((x - mean) @ matrix), np.abs(naive.whitening(x, 4, exponent))
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * wanted.max())


@pytest.mark.parametrize("exponent", [0.0, 0.25, 0.5])
def test_a_variance_is_raised_to_one_minus_twice_the_exponent(exponent):
    x = anisotropic()
    mean, matrix = whitening(x, exponent=exponent)
    variances = np.linalg.eigvalsh(np.cov(x.T, bias=True))[::-1]
    z = (x - mean) @ matrix
    np.testing.assert_allclose(z.T @ z / len(z), np.diag(variances ** (1 - 2 * exponent)), atol=1e-9)


def test_shrinkage_equals_ledoit_and_wolfs_definition():
    """Their Lemma 3.2 and 3.3, in sums over the rows."""
    x = anisotropic(rows=30)
    centred = x - x.mean(axis=0)
    n, dim = x.shape
    sample = sum(np.outer(row, row) for row in centred) / n
    middle = np.trace(sample) / dim
    spread = np.sum((sample - middle * np.eye(dim)) ** 2) / dim
    noise = min(spread, sum(np.sum((np.outer(row, row) - sample) ** 2) / dim for row in centred) / n**2)
    shrunk = noise / spread * middle * np.eye(dim) + (1 - noise / spread) * sample
    _, matrix = whitening(x, shrink=True)
    assert noise / spread > 0.01
    np.testing.assert_allclose(matrix @ matrix.T, np.linalg.inv(shrunk), rtol=1e-9)


def test_a_shrunk_covariance_needs_fewer_rows_than_dimensions():
    train, x = anisotropic(rows=5), anisotropic(rows=60)
    assert whitening(train, shrink=True)[1].shape == (6, 6)
    with pytest.raises(UserError, match="5 sentences cannot whiten 6 dimensions"):
        whitening(train)
    assert np.isfinite(x @ whitening(train, shrink=True)[1]).all()


def test_exponent_0_is_centring_alone():
    """The axes turn, which no cosine sees."""
    x = anisotropic()
    mean, matrix = whitening(x, exponent=0.0)
    z, centred = (x - mean) @ matrix, x - x.mean(axis=0)
    np.testing.assert_allclose(z @ z.T, centred @ centred.T, atol=1e-9)


def test_centring_needs_no_rank_and_loses_no_direction():
    """Four rows span three directions of six. The others stay as they are in other text."""
    fitted_on, x = anisotropic(rows=4), anisotropic(rows=60)
    mean, matrix = whitening(fitted_on, exponent=0.0)
    z, centred = (x - mean) @ matrix, x - fitted_on.mean(axis=0)
    np.testing.assert_allclose(z @ z.T, centred @ centred.T, atol=1e-9)


def test_whitening_keeps_the_directions_of_largest_variance():
    x = np.random.default_rng(0).standard_normal((500, 5)) * [1, 9, 3, 7, 5]
    _, matrix = whitening(x, 2)
    assert np.abs(matrix).argmax(axis=0).tolist() == [1, 3]


def test_whitening_leaves_out_directions_that_are_not_used():
    """Vectors whose channels add up to the same number, as a LayerNorm leaves them, in float32."""
    x = anisotropic(dimensions=6)
    x = (100 + x - x.mean(axis=1, keepdims=True)).astype(np.float32).astype(np.float64)
    mean, matrix = whitening(x)
    assert matrix.shape == (6, 5)
    z = (x - mean) @ matrix
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(5), atol=1e-6)
    np.testing.assert_array_equal(whitening(x, 6)[1], matrix)


@pytest.mark.parametrize("vector", [np.zeros(6), np.full(6, 3.7)])
def test_one_vector_for_all_sentences_cannot_be_whitened(vector):
    with pytest.raises(UserError, match="all 50 sentences have the same vector"):
        whitening(np.tile(vector, (50, 1)))


def test_whitening_wants_enough_sentences():
    with pytest.raises(UserError, match=r"6 sentences cannot whiten 6 .*: fit on more .* smaller k or exponent 0"):
        whitening(anisotropic(rows=6))
    with pytest.raises(UserError, match=r"4 sentences cannot whiten 4 dimensions: fit on more .* smaller k$"):
        whitening(anisotropic(rows=4), 4, exponent=0.0)
    assert whitening(anisotropic(rows=6), 3)[1].shape == (6, 3)
    with pytest.raises(UserError, match="k = 7 of 6 dimensions: choose k up to 6"):
        whitening(anisotropic(), 7)
