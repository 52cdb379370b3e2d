"""Figures draw the numbers that they are given."""

from __future__ import annotations

import numpy as np
import pytest

from isotrope.report import figures


def test_a_histogram_clips_what_lies_outside() -> None:
    edges = np.linspace(-1, 1, 5)
    assert figures.histogram(np.array([-1.01, -0.6, 0.0, 1.0, 1 + 1e-9]), edges).tolist() == [2, 0, 1, 2]


def test_labels_are_pushed_apart_in_order() -> None:
    assert figures.push_apart([0.5, 0.1, 0.52], 0.1) == pytest.approx([0.5, 0.1, 0.6])
