"""The flow's volume is right, its likelihood a density, its fit seeded."""

import math

import numpy as np
import pytest
import torch

from isotrope.post.flow import Flow, Glow, negative_log_likelihood


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
        assert glow(x[None])[1].item() == pytest.approx(torch.linalg.slogdet(jacobian).logabsdet.item(), abs=1e-9)


def test_the_likelihood_is_the_density():
    """One actnorm makes the flow a diagonal Gaussian, whose density torch knows; and it integrates to one."""
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
    x = torch.cat([first, first**2 + 0.1 * torch.randn(600, 3, generator=generator)], dim=1)  # a bent sheet
    flow = Flow(epochs=10, depth=3, lr=1e-2)
    untrained = Glow(6, 3, 32)
    untrained.begin(x)
    with torch.no_grad():
        before, after = (negative_log_likelihood(*glow(x)).item() for glow in (untrained, flow.train(x)))
    assert after < before - 0.2
    with torch.inference_mode():  # as an evaluation may run
        once, again, other = (Flow(depth=3, seed=seed).fitted(x.numpy())(x.numpy()) for seed in (0, 0, 1))
    np.testing.assert_array_equal(once, again)
    assert not np.array_equal(once, other)
