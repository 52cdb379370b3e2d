"""Pairs by bands of their gold score."""

from __future__ import annotations

import numpy as np

from isotrope.evaluation.geometry import by_gold_band, gold_scale


def test_bands_hold_what_their_label_says() -> None:
    gold = np.array([0, 0.2, 0.35, 0.5, 0.79, 0.8, 1.0])
    bands = by_gold_band(gold, {"after": gold})
    assert {label: values["after"].tolist() for label, values in bands} == {
        "0–0.2": [0], "0.2–0.4": [0.2, 0.35], "0.4–0.6": [0.5], "0.6–0.8": [0.79], "0.8–1": [0.8, 1.0],
    }  # fmt: skip
    assert gold_scale(np.array([1.0, 4.6])) == (0, 5)
    assert gold_scale(np.array([-1.0, 0.9])) == (-1, 0.9)
    assert gold_scale(np.array([0.0, 100.0])) == (0, 100)
