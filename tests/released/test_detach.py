"""Whitening as released: the same values, and no gradient through the matrices."""

from __future__ import annotations

import torch

from drawn import draw, scores
from isotrope.released.detach import Detach
from isotrope.views.sgw import SGW


def test_the_matrices_carry_no_gradient() -> None:
    stack = draw(2, 6, 4).requires_grad_()
    found = []
    for kind in (SGW, Detach):
        whitened = kind(dim=4, groups=2, copies=2)(scores(stack).views).stack
        loss = (whitened * draw(4, 6, 4, seed=2)).sum()
        found.append((loss.item(), torch.autograd.grad(loss, stack)[0]))
    assert found[0][0] == found[1][0]
    assert not torch.allclose(found[0][1], found[1][1])
