"""Whitening, ranks and flow equal their definitions."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from helpers.refusals import refused
from helpers.toy_vectors import anisotropic
from helpers.words import sentences
from isotrope.post.flow import Flow, Glow, negative_log_likelihood
from isotrope.post.names import open_encoder
from isotrope.post.ranks import ranks
from isotrope.post.whitening import whitening
from oracle import baselines as naive
from oracle import losses as oracle


@pytest.mark.parametrize("exponent", [0.0, 0.1, 0.25, 0.5])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 1e-3)])
def test_soft_whitening_equals_its_definition_up_to_signs(exponent, dtype, tolerance):
    x = anisotropic(rows=60).astype(dtype)
    mean, matrix = whitening(x, 4, exponent)
    found, wanted = np.abs((x - mean) @ matrix), np.abs(naive.whitening(x, 4, exponent))
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * wanted.max())


def test_shrinkage_equals_ledoit_and_wolfs_definition():
    """Their Lemma 3.2 and 3.3, in sums over the rows."""
    x = anisotropic(rows=30)
    centred = x - x.mean(axis=0)
    n, dim = x.shape
    sample = sum(np.outer(row, row) for row in centred) / n
    middle = np.trace(sample) / dim
    spread = np.sum((sample - middle * np.eye(dim)) ** 2) / dim
    noise = min(
        spread, sum(np.sum((np.outer(row, row) - sample) ** 2) / dim for row in centred) / n**2
    )
    shrunk = noise / spread * middle * np.eye(dim) + (1 - noise / spread) * sample
    _, matrix = whitening(x, shrink=True)
    assert noise / spread > 0.01
    np.testing.assert_allclose(matrix @ matrix.T, np.linalg.inv(shrunk), rtol=1e-9)


def test_centring_needs_no_rank_and_loses_no_direction():
    """Four rows span three directions of six. The others stay as they are in other text."""
    fitted_on, x = anisotropic(rows=4), anisotropic(rows=60)
    mean, matrix = whitening(fitted_on, exponent=0.0)
    z, centred = (x - mean) @ matrix, x - fitted_on.mean(axis=0)
    np.testing.assert_allclose(z @ z.T, centred @ centred.T, atol=1e-9)


def test_whitening_leaves_out_directions_that_are_not_used():
    """Vectors whose channels add up to the same number, as a LayerNorm leaves them, in float32."""
    x = anisotropic(dimensions=6)
    x = (100 + x - x.mean(axis=1, keepdims=True)).astype(np.float32).astype(np.float64)
    mean, matrix = whitening(x)
    assert matrix.shape == (6, 5)
    z = (x - mean) @ matrix
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(5), atol=1e-6)
    np.testing.assert_array_equal(whitening(x, 6)[1], matrix)


def test_whitening_wants_enough_sentences():
    with refused("too-few-sentences"):
        whitening(anisotropic(rows=6))
    with refused("too-few-sentences"):
        whitening(anisotropic(rows=4), 4, exponent=0.0)
    assert whitening(anisotropic(rows=6), 3)[1].shape == (6, 3)
    with refused("too-few-sentences"):
        whitening(anisotropic(), 7)


def test_cosines_are_spearmans_correlations() -> None:
    corpus, x = anisotropic(30, 5), anisotropic(600, 5, seed=1)
    corpus[7] = corpus[3]  # equal cosines share a rank
    found = ranks(corpus)(x)
    assert found.shape == (600, 30)
    for i, j in ((0, 1), (5, 599), (2, 2)):
        lists = [[oracle.cosine(x[row], one) for one in corpus] for row in (i, j)]
        expected = spearmanr(*lists).statistic
        assert oracle.cosine(found[i], found[j]) == pytest.approx(expected, abs=1e-12)
    assert np.array_equal(ranks(corpus)(x[:3]), found[:3]), "row by row"


def test_it_stands_behind_a_model(tiny_model: Path, corpus_file: Path) -> None:
    text = sentences(5, seed=3)
    base = open_encoder(f"{tiny_model}@mean")
    found = open_encoder(f"{tiny_model}@mean+ranks:fit={corpus_file},sentences=60,k=40").encode(
        text
    )
    corpus = base.encode(corpus_file.read_text().splitlines()[:40])
    expected = ranks(np.asarray(corpus, np.float64))(np.asarray(base.encode(text), np.float64))
    assert found.shape == (5, 40)
    assert np.allclose(found, expected, atol=1e-4)


def stirred(dim=5, depth=2):
    """A flow whose every weight is away from where it begins."""
    torch.manual_seed(0)
    glow = Glow(dim, depth, 7).double()
    for p in glow.parameters():
        p.data += 0.3 * torch.randn_like(p)
    return glow


def test_the_flows_volume_is_that_of_its_jacobian():
    glow = stirred()
    for x in torch.randn(4, 5, dtype=torch.float64):
        jacobian = torch.autograd.functional.jacobian(lambda row: glow(row[None])[0][0], x)
        assert glow(x[None])[1].item() == pytest.approx(
            torch.linalg.slogdet(jacobian).logabsdet.item(), abs=1e-9
        )


def test_the_likelihood_is_the_density():
    """One actnorm makes the flow a diagonal Gaussian, whose density torch knows; and it integrates
    to one.
    """
    glow = Glow(2, 1, 3).double()
    x = torch.randn(100, 2, dtype=torch.float64) * torch.tensor([3.0, 0.5]) + 1
    glow.begin(x)
    torch.testing.assert_close(glow(x)[0].std(dim=0, correction=0), torch.ones(2).double())
    normal = torch.distributions.Normal(x.mean(dim=0), x.std(dim=0, correction=0))
    expected = -normal.log_prob(x).sum(dim=1).mean().item() / 2
    assert negative_log_likelihood(*glow(x)).item() == pytest.approx(expected, abs=1e-12)
    glow, step = stirred(dim=2), 0.05
    axis = torch.arange(-12, 12, step, dtype=torch.float64)
    z, volume = glow(torch.cartesian_prod(axis, axis))
    density = torch.exp(volume - (z**2).sum(dim=1) / 2) / (2 * math.pi)
    assert float(density.detach().sum()) * step**2 == pytest.approx(1, abs=0.02)


def test_the_fit_raises_the_likelihood_and_is_seeded():
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(600, 3, generator=generator)
    # a bent sheet
    x = torch.cat([first, first**2 + 0.1 * torch.randn(600, 3, generator=generator)], dim=1)
    flow = Flow(epochs=10, depth=3, lr=1e-2)
    untrained = Glow(6, 3, 32)
    untrained.begin(x)
    with torch.no_grad():
        before, after = (
            negative_log_likelihood(*glow(x)).item() for glow in (untrained, flow.train(x))
        )
    assert after < before - 0.2
    with torch.inference_mode():  # as an evaluation may run
        once, again, other = (
            Flow(depth=3, seed=seed).fitted(x.numpy())(x.numpy()) for seed in (0, 0, 1)
        )
    np.testing.assert_array_equal(once, again)
    assert not np.array_equal(once, other)
