"""All-but-the-top equals its definition."""

import numpy as np
import pytest

from isotrope.errors import UserError
from isotrope.post.removal import Removal, removal
from oracle import baselines as naive
from toy_vectors import Rows, anisotropic


@pytest.mark.parametrize("k", [1, 2, 5])
def test_removal_equals_its_definition(k):
    x = anisotropic()
    mean, matrix = removal(x, k)
    np.testing.assert_allclose((x - mean) @ matrix, naive.all_but_the_top(x, k), atol=1e-6)


def test_the_largest_variances_are_gone_and_the_others_stay():
    x = np.random.default_rng(0).standard_normal((500, 5)) * [1, 9, 3, 7, 5]
    mean, matrix = removal(x, 2)
    before, after = (np.linalg.eigvalsh(np.cov(z.T, bias=True)) for z in (x, (x - mean) @ matrix))
    np.testing.assert_allclose(after, [0, 0, *before[:3]], atol=1e-9)


def test_as_a_step_it_keeps_the_dimensions():
    texts = [f"text {i}" for i in range(40)]
    found = Removal(k=2).behind(Rows()).fit(texts).encode(texts)
    assert found.shape == (40, 6)
    assert np.linalg.matrix_rank(found.astype(np.float64), tol=1e-3) == 4


def test_what_cannot_be_removed_is_one_line():
    with pytest.raises(UserError, match=r"removal of k = 6 directions of .* with 6 dimensions: choose a smaller k"):
        removal(anisotropic(), 6)
    with pytest.raises(UserError, match=r"k = 3 directions of 2 vectors .* or fit on more sentences"):
        removal(anisotropic(rows=2), 3)
