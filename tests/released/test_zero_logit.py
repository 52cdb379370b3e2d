"""Instance weights as released: the logit of a false negative is 0, not the candidate removed."""

from __future__ import annotations

import pytest

from drawn import draw, scores
from isotrope.released.zero_logit import ZeroLogit
from isotrope.terms.infonce import InfoNCE
from oracle import losses


def test_as_released_the_term_becomes_one() -> None:
    guide = draw(4, 6, seed=9)
    guide[3] = guide[1]
    plain = scores(draw(2, 4, 6), guide)
    released = ZeroLogit("guide", 0.9)(plain)
    assert released.keep.equal(plain.keep)
    cosines = plain.cosines.clone()
    cosines[:, 1, 3] = cosines[:, 3, 1] = 0.0
    assert released.cosines.equal(cosines)
    assert InfoNCE()(released).item() == pytest.approx(losses.infonce(cosines, 0.05), rel=1e-10)
