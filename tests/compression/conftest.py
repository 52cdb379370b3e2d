"""Small measurements: a student is compared with its teacher on few pairs and texts."""

from collections.abc import Iterator

import pytest

from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.similarity import similarity_pairs


@pytest.fixture(autouse=True, scope="module")
def _quick() -> Iterator[None]:
    """Memory would be measured by processes of their own, which take seconds."""
    pairs = similarity_pairs()
    few = GradedPairs("few", pairs.first[:20], pairs.second[:20], pairs.gold[:20])
    with pytest.MonkeyPatch.context() as patch:
        for place in ("compress", "quality"):
            patch.setattr(f"isotrope.compression.{place}.similarity_pairs", lambda: few)
        patch.setattr("isotrope.compression.cost.peak_memory", lambda *_: 10**6)
        patch.setattr("isotrope.compression.compress.TIMED", 8)
        yield
