"""What components share: the context that they are built with, hidden words, moving averages."""

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from isotrope.contract.layers import Hiding, decay_at, follow

PAD, CLS, SEP, MASK, WORDS = 0, 1, 2, 3, 500


class Tokenizer(SimpleNamespace):
    def __len__(self) -> int:
        return WORDS


def hiding(ratio: float = 0.3) -> Hiding:
    return Hiding(Tokenizer(mask_token_id=MASK, all_special_ids=[PAD, CLS, SEP, MASK]), ratio)


def test_a_share_is_hidden_and_shown_in_three_ways() -> None:
    ids = torch.randint(4, WORDS, (400, 30), generator=torch.Generator().manual_seed(1))
    ids[:, 0], ids[:, -1] = CLS, SEP
    mask = (torch.arange(30) < torch.randint(5, 31, (400, 1))).long()
    hidden, shown = hiding()(
        ids, mask, torch.rand(400, 30, 3, generator=torch.Generator().manual_seed(0))
    )
    words = mask.bool() & (ids > MASK)
    assert not hidden[~words].any(), "neither marks nor padding"
    assert torch.equal(shown[~hidden], ids[~hidden])
    assert abs(hidden.sum() / words.sum() - 0.3) < 0.02
    masked, kept = shown[hidden] == MASK, shown[hidden] == ids[hidden]
    assert abs(masked.float().mean() - 0.8) < 0.03
    assert abs(kept.float().mean() - 0.1) < 0.03
    assert shown.max() < WORDS


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


@given(st.integers(0, 30_000), st.floats(0, 1), st.integers(1, 20_000))
def test_the_decay_rises_to_one(step: int, start: float, rise: int) -> None:
    assert decay_at(step, start, 0) == start
    assert decay_at(0, start, rise) == pytest.approx(start)
    assert (
        start - 1e-9
        <= decay_at(step, start, rise)
        <= decay_at(step + 1, start, rise) + 1e-9
        <= 1 + 1e-9
    )
    assert decay_at(rise + step, start, rise) == 1
    assert decay_at(rise, start, 2 * rise) == pytest.approx(
        1 - (1 - start) * (math.cos(math.pi / 2) + 1) / 2
    )
