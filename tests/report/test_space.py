"""A space, seen through a sample."""

from __future__ import annotations

import numpy as np
import pytest

from isotrope.evaluation.geometry import unit
from isotrope.report.space import Space


def test_a_space_is_what_plain_loops_say() -> None:
    vectors = np.random.default_rng(0).normal(size=(12, 4)) + 1
    space, rows = Space.of(vectors), unit(vectors)
    assert space.cosines == pytest.approx([rows[i] @ rows[j] for i in range(12) for j in range(i + 1, 12)])
    values = np.sort(np.linalg.eigvalsh(np.cov(rows.T)))[::-1]
    assert space.shares == pytest.approx(values / values.sum())
    nearest = max((j for j in range(12) if j != 2), key=lambda j: rows[2] @ rows[j])
    assert space.nearest[2][0] == (nearest, pytest.approx(rows[2] @ rows[nearest]))
    assert [len(found) for found in space.nearest] == [3] * 6
