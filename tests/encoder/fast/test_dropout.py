"""Dropout drops the right share, fixed by the seed."""

from __future__ import annotations

import pytest
import torch

from isotrope.encoder.fast.dropout import drop


def test_dropout_drops_the_right_share_and_is_fixed_by_the_seed() -> None:
    x = torch.ones(1_000_001, requires_grad=True)
    torch.manual_seed(0)
    dropped = drop(x, 0.1)
    dropped.sum().backward()
    assert torch.equal(x.grad, dropped.detach())
    kept = dropped[dropped != 0]
    assert torch.all(kept == kept[0])
    assert kept[0].item() == pytest.approx(1 / 0.9, rel=1e-4)
    assert len(kept) / len(x) == pytest.approx(0.9, abs=2e-3)  # 7 standard deviations
    lagged = ((dropped[1:] == 0) & (dropped[:-1] == 0)).double().mean()
    assert lagged.item() == pytest.approx(0.01, abs=1e-3)  # neighbours are independent
    torch.manual_seed(0)
    assert torch.equal(drop(x, 0.1), dropped)
    assert torch.equal(drop(x, 0.0), x)
    assert not drop(x, 1.0).any()
