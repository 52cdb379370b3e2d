"""Hard negatives that came with the data are candidates for every anchor."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from drawn import draw, scores
from isotrope.scores.hard_negatives import HardNegatives
from isotrope.terms.infonce import InfoNCE
from oracle import losses


def test_every_anchor_sees_all_of_them() -> None:
    stack = draw(2, 4, 6)
    plain = scores(stack, hard=2)
    after = HardNegatives()(plain)
    negatives = plain.views.negatives.flatten(0, 1)
    assert torch.allclose(after.cosines[0, :, 4:], F.normalize(stack[0], dim=1) @ F.normalize(negatives, dim=1).T)
    expected = losses.infonce(losses.cosines(stack[0], torch.cat([stack[1], negatives])), 0.05)
    assert abs(InfoNCE()(after).item() - expected) < 1e-9


def test_without_negatives_nothing_changes() -> None:
    plain = scores(draw(2, 4, 6))
    assert HardNegatives()(plain).cosines.equal(plain.cosines)
