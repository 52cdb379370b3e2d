"""Pairs by their gold score, in five bands of one width, as RankCSE Fig. 5 has STS-B."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from isotrope.types import Vector

BANDS = 5


def gold_scale(gold: Vector) -> tuple[float, float]:
    """The scale that scores (N,) seem to be on: 0–1, 0–5, or from the lowest (0 where none is below) to the highest."""
    low, high = min(0.0, float(gold.min())), float(gold.max())
    return low, high if low < 0 else 1.0 if high <= 1 else max(5.0, high)


def by_gold_band(gold: Vector, cosines: Mapping[str, Vector]) -> list[tuple[str, dict[str, Vector]]]:
    """Cosines by band of gold (N,), lowest first: (label, {name: (n,)}). A pair is in one band; the last is closed."""
    edges = np.linspace(*gold_scale(gold), BANDS + 1).round(12)  # a score of 0.6 lies on the edge 0.6, not below it
    band = np.clip(np.searchsorted(edges, gold, side="right") - 1, 0, BANDS - 1)  # (N,)
    return [
        (f"{edges[i]:.3g}–{edges[i + 1]:.3g}", {name: values[band == i] for name, values in cosines.items()})
        for i in range(BANDS)
    ]
