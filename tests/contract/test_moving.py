"""Moving averages of weights."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from isotrope.contract.moving import decay_at, follow


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_the_average_of_steps_is_the_sum_by_hand(dtype: torch.dtype, tolerance: float) -> None:
    leader, average = nn.BatchNorm1d(3).to(dtype), nn.BatchNorm1d(3).to(dtype).requires_grad_(False)
    weights = torch.arange(12, dtype=dtype).view(4, 3)
    expected = average.weight.clone()
    for row in weights:
        leader.weight.data, leader.running_mean = row.clone(), row + 1
        follow(average, leader, 0.9)
        expected = 0.9 * expected + 0.1 * row
    assert torch.allclose(average.weight, expected, rtol=tolerance)
    assert torch.equal(average.running_mean, weights[-1] + 1), "running statistics are copied"
    assert torch.equal(leader.weight, weights[-1])


def test_a_leader_of_another_precision_is_followed_in_the_averages_own() -> None:
    leader, average = nn.Linear(2, 2).bfloat16(), nn.Linear(2, 2)
    start = average.weight.clone()
    follow(average, leader, 0.995)
    assert average.weight.dtype == torch.float32
    assert torch.allclose(average.weight, 0.995 * start + 0.005 * leader.weight.float())


@given(st.integers(0, 30_000), st.floats(0, 1), st.integers(1, 20_000))
def test_the_decay_rises_to_one(step: int, start: float, rise: int) -> None:
    assert decay_at(step, start, 0) == start
    assert decay_at(0, start, rise) == pytest.approx(start)
    assert start - 1e-9 <= decay_at(step, start, rise) <= decay_at(step + 1, start, rise) + 1e-9 <= 1 + 1e-9
    assert decay_at(rise + step, start, rise) == 1
    assert decay_at(rise, start, 2 * rise) == pytest.approx(1 - (1 - start) * (math.cos(math.pi / 2) + 1) / 2)
