"""Uniformity as a loss: against loops and the golden number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from drawn import cosines_of, draw
from isotrope.terms.uniformity import uniformity
from oracle import ranking as oracle


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("shape", [(2, 2), (5, 5), (3, 4, 4)])
def test_equals_the_loops(shape: tuple[int, ...], dtype: torch.dtype, tolerance: float) -> None:
    views = draw(*shape, seed=1, dtype=dtype)
    for t in (2.0, 0.7):
        expected = oracle.uniformity(views, t)
        assert uniformity(views, t).item() == pytest.approx(expected, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_golden_numbers(golden: Path, dtype: torch.dtype, tolerance: float) -> None:
    value = {name: torch.from_numpy(array) for name, array in np.load(golden / "equations.npz").items()}
    h = value["h"].to(dtype)
    found = {"uniform": uniformity(h)}
    for name, loss in found.items():
        assert loss.dtype == dtype
        assert loss.item() == pytest.approx(value[name].item(), abs=tolerance), name


@pytest.mark.parametrize("shape", [(4, 4), (2, 4, 4)])
def test_gradient(shape: tuple[int, ...]) -> None:
    assert torch.autograd.gradcheck(uniformity, cosines_of(*shape).requires_grad_())


def test_uniform_points_are_lower_than_a_cluster() -> None:
    spread, cluster = torch.eye(6, dtype=torch.float64), torch.ones(6, 6, dtype=torch.float64)
    assert uniformity(spread).item() == pytest.approx(-4)  # all squared distances are 2
    assert uniformity(cluster).item() == pytest.approx(0, abs=1e-12)
