"""Ranking consistency (RankCSE Eq. 2: Liu et al., ACL 2023).
https://aclanthology.org/2023.acl-long.771
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from isotrope.types import AboveZero, NonNegative, Scores


def consistency(cosines: Tensor, temperature: float) -> Tensor:
    """½ Σ_j P_ij log 2P_ij / (P_ij + Q_ij) + Q_ij log 2Q_ij / (P_ij + Q_ij), mean over anchors i
    and positives -> ().

    cosines (N, N) or (P, N, N). P_i is the softmax of anchor i's list cos(f(x_i), f(x_j)′) / τ over
    all sentences j, the positive included. Q_i is that of the second list cos(f(x_i)′, f(x_j)) / τ,
    which is column i. In [0, log 2], and exactly 0 for equal lists.
    """
    p = (cosines / temperature).log_softmax(dim=-1)  # log P
    q = (cosines.mT / temperature).log_softmax(dim=-1)  # log Q
    log_sum = torch.logaddexp(p, q)  # log (P + Q)

    # logaddexp(p, p) is log 2P, and equal to log (P + Q) to the last bit where P = Q.
    from_p = p.exp() * (torch.logaddexp(p, p) - log_sum)
    from_q = q.exp() * (torch.logaddexp(q, q) - log_sum)
    return (from_p + from_q).sum(dim=-1).mean() / 2


@dataclass(frozen=True)
class Consistency:
    """Both views of a sentence rank the others alike; ``weight`` is β of Eq. 6. BibTeX:
    liu2023rankcse.
    """

    stage = "terms"
    temperature: AboveZero = 0.05
    weight: NonNegative = 1.0

    def __call__(self, scores: Scores) -> Tensor:
        return self.weight * consistency(scores.pairs, self.temperature)
