"""The lists of two encoders against loops."""

from __future__ import annotations

import pytest
import torch

from drawn import draw, scores
from isotrope.errors import UserError
from isotrope.terms.peer_lists import PeerLists, peer_lists
from oracle import losses as oracle


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
@pytest.mark.parametrize("views", [2, 4])
def test_equals_the_loops(views: int, dtype: torch.dtype, tolerance: float) -> None:
    own, peer = (draw(views, 5, 4, seed=seed, dtype=dtype) for seed in range(2))
    expected = oracle.peer_lists(own, peer, 0.2)
    assert expected > 0
    assert peer_lists(own, peer, 0.2).item() == pytest.approx(expected, rel=tolerance)


def test_gradient_reaches_both_encoders() -> None:
    parts = [draw(3, 4, 3, seed=seed).requires_grad_() for seed in range(2)]
    assert torch.autograd.gradcheck(lambda *given: peer_lists(*given, 0.3), parts)


def test_equal_encoders_agree() -> None:
    own = draw(3, 6, 4)
    assert peer_lists(own, 7 * own, 0.05).item() == pytest.approx(0, abs=1e-9)


def test_the_views_are_named() -> None:
    given = scores(stack := draw(4, 5, 3))
    expected = peer_lists(stack[[0, 2]], stack[[1, 3]], 0.05)
    assert PeerLists(own=(0, 2), peer=(1, 3), weight=0.5)(given).item() == pytest.approx(0.5 * expected.item())
    with pytest.raises(UserError, match=r"peer = \[1, 4\] is not possible"):
        PeerLists(own=(0, 2), peer=(1, 4))(given)
