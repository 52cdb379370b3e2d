"""Which views are positives, and whether the data's negatives are candidates.

Hard negatives are those of supervised SimCSE (Gao et al., EMNLP 2021, Eq. 5). A key for a queue is no positive
(ESimCSE: Wu et al., COLING 2022, Sec. 3.2, https://aclanthology.org/2022.coling-1.342).
"""

from dataclasses import dataclass, replace

from isotrope.types import Counts, Scores


@dataclass(frozen=True)
class HardNegatives:
    """All negatives join every anchor's denominator. Without negatives nothing changes. BibTeX: gao2021simcse."""

    stage = "scores"

    def __call__(self, scores: Scores) -> Scores:
        return scores.with_extra(scores.views.negatives.flatten(0, 1))  # (N, H, D) -> (N·H, D)


@dataclass(frozen=True)
class Positives:
    """The cosines (P, N, N + K) of some positives alone, counted as the passes. BibTeX: wu2022esimcse.

    The other views stay for the components that ask for them by number: 0 is the anchor.
    """

    stage = "scores"
    views: Counts = (1,)

    def __call__(self, scores: Scores) -> Scores:
        scores.views.named(self.views, "scores.positives.views")
        return replace(scores, cosines=scores.cosines[[number - 1 for number in self.views]])
