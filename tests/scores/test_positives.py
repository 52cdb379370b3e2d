"""Which views are positives."""

from __future__ import annotations

import pytest
import torch

from drawn import draw, scores
from isotrope import component
from isotrope.errors import UserError
from isotrope.scores.positives import Positives
from isotrope.terms.infonce import InfoNCE


def test_other_views_leave_the_contrast_and_stay_in_the_batch() -> None:
    stack = draw(4, 5, 3)
    found = Positives((3, 1))(scores(stack).with_extra(draw(2, 3, seed=5)))
    expected = scores(stack[[0, 3, 1]]).with_extra(draw(2, 3, seed=5))
    assert torch.equal(found.cosines, expected.cosines)
    assert InfoNCE()(found).item() == InfoNCE()(expected).item()
    assert torch.equal(found.views.stack, stack)


def test_views_that_do_not_exist_are_refused() -> None:
    with pytest.raises(
        UserError, match=r"scores\.positives\.views = \[2\] is not possible: the views are 0 to 1: name other views"
    ):
        Positives((2,))(scores(draw(2, 5, 3)))
    for wrong in ([], [0]):
        with pytest.raises(UserError, match=r"scores\.positives\.views"):
            component("scores", "positives", views=wrong)
