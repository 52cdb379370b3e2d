"""Views without their template's bias, against loops."""

from __future__ import annotations

import pytest
import torch

from drawn import draw
from drawn import scores as scores_of
from isotrope.errors import UserError
from isotrope.views.denoised import Denoised, denoise


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_equals_the_loops(dtype: torch.dtype) -> None:
    stack = draw(5, 4, 3, dtype=dtype)
    found = denoise(stack, [3, 2])
    for i in range(4):
        for d in range(3):
            assert found[0, i, d] == stack[0, i, d] - stack[3, i, d]
            assert found[1, i, d] == stack[1, i, d] - stack[2, i, d]
    assert torch.equal(found[2:], stack[2:])


def test_gradient_reaches_text_and_template() -> None:
    stack = draw(4, 3, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda given: denoise(given, [2, 3]).square(), stack)


def test_the_views_are_named() -> None:
    views = scores_of(draw(3, 4, 5)).views
    assert torch.equal(Denoised([2])(views).stack, denoise(views.stack, [2]))
    for templates in ([3], [1, 2, 2]):
        with pytest.raises(UserError, match=r"is not possible.*the views are 0 to 2"):
            Denoised(templates)(views)
