"""Hard negatives that came with the data join the candidates (supervised SimCSE: Gao et al., EMNLP 2021, Eq. 5)."""

from dataclasses import dataclass

from isotrope.types import Scores


@dataclass(frozen=True)
class HardNegatives:
    """All negatives join every anchor's denominator. Without negatives nothing changes. BibTeX: gao2021simcse."""

    stage = "scores"

    def __call__(self, scores: Scores) -> Scores:
        return scores.with_extra(scores.views.negatives.flatten(0, 1))  # (N, H, D) -> (N·H, D)
