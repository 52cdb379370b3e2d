"""Which views are positives (ESimCSE, https://aclanthology.org/2022.coling-1.342); hard negatives
(SimCSE Eq. 5).
"""

from dataclasses import dataclass, replace

from isotrope.types import Counts, Scores


@dataclass(frozen=True)
class HardNegatives:
    """All negatives join every anchor's denominator. Without negatives nothing changes. BibTeX:
    gao2021simcse.
    """

    stage = "scores"

    def __call__(self, scores: Scores) -> Scores:
        negatives = scores.views.negatives.flatten(0, 1)  # (N·H, D)
        return scores.with_extra(negatives)


@dataclass(frozen=True)
class Positives:
    """The cosines (P, N, N + K) of some positives alone, so without keys for a queue. BibTeX:
    wu2022esimcse.
    """

    stage = "scores"
    # counted as the passes; the others stay for components that ask for them by number
    views: Counts = (1,)

    def __call__(self, scores: Scores) -> Scores:
        scores.views.named(self.views, "scores.positives.views")
        places = [number - 1 for number in self.views]  # the anchor, view 0, has no cosines
        return replace(scores, cosines=scores.cosines[places])
