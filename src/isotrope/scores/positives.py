"""Roles of views: which of them are positives. The others stay for the components that ask for them by number.

A key for a queue is no positive (ESimCSE: Wu et al., COLING 2022, Sec. 3.2, https://aclanthology.org/2022.coling-1.342).
"""

from dataclasses import dataclass, replace

from isotrope.types import Counts, Scores


@dataclass(frozen=True)
class Positives:
    """The cosines (P, N, N + K) of some positives alone. BibTeX: wu2022esimcse.

    Args:
        views: the views that are positives, counted as the passes: 0 is the anchor.
    """

    stage = "scores"
    views: Counts = (1,)

    def __call__(self, scores: Scores) -> Scores:
        scores.views.named(self.views, "scores.positives.views")
        return replace(scores, cosines=scores.cosines[[number - 1 for number in self.views]])
