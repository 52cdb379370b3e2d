"""RankCSE's ranking consistency as the community's code computes it (the authors released none).

The paper (Liu et al., ACL 2023, Eq. 2; https://aclanthology.org/2023.acl-long.771) has Jensen and Shannon's divergence:
``terms/consistency.py``.
"""

import math

from torch import Tensor

from isotrope.terms.consistency import Consistency
from isotrope.types import Scores

LEAST = math.log(1e-7)  # of a log-probability


def clamped_consistency(cosines: Tensor, temperature: float) -> Tensor:
    """½ Σ_j P_ij (log P_ij - 1e-7) + Q_ij (log Q_ij - 1e-7), mean over anchors, positives. (N, N) or (P, N, N) -> ().

    Probabilities below 1e-7 are raised to it.
    The logarithm of the mixture (P + Q) / 2 is never above 0, and the code clamps it to at least 1e-7: a constant. What
    is left rewards entropy in both lists, whether they agree or not.
    """
    p = (cosines / temperature).log_softmax(dim=-1).clamp(min=LEAST)  # log P
    q = (cosines.mT / temperature).log_softmax(dim=-1).clamp(min=LEAST)  # log Q
    return (p.exp() * (p - 1e-7) + q.exp() * (q - 1e-7)).sum(dim=-1).mean() / 2


class Clamped(Consistency):
    """For comparison with runs of the community's code. BibTeX: liu2023rankcse."""

    def __call__(self, scores: Scores) -> Tensor:
        return self.weight * clamped_consistency(scores.pairs, self.temperature)
