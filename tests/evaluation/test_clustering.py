"""k-means finds the classes again."""

from __future__ import annotations

import numpy as np

from isotrope.evaluation.retrieval import v_measures


def test_v_measure_knows_classes_from_noise_and_repeats_itself() -> None:
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), 40)
    apart = 10 * np.eye(5)[labels] + generator.normal(size=(200, 5))
    noise = generator.normal(size=(200, 5))
    assert v_measures(noise, labels).mean() < 0.2 < 0.7 < v_measures(apart, labels).mean()
    np.testing.assert_array_equal(v_measures(noise, labels), v_measures(noise, labels))
    assert len(set(v_measures(noise, labels))) > 1  # each run has its own start
