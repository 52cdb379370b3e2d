"""Small measurements: a student is compared with its teacher on few pairs and texts."""

import pytest

from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.similarity import similarity_pairs


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory would be measured by processes of their own, which take seconds."""
    pairs = similarity_pairs()
    few = GradedPairs("few", pairs.first[:20], pairs.second[:20], pairs.gold[:20])
    for place in ("compress", "quality"):
        monkeypatch.setattr(f"isotrope.compression.{place}.similarity_pairs", lambda: few)
    monkeypatch.setattr("isotrope.compression.cost.peak_memory", lambda *_: 10**6)
    monkeypatch.setattr("isotrope.compression.compress.TIMED", 8)
