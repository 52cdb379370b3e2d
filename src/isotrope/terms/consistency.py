"""Ranking consistency (RankCSE Eq. 2: Liu et al., ACL 2023).
https://aclanthology.org/2023.acl-long.771
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from isotrope.types import AboveZero, NonNegative, Scores


def consistency(
    cosines: Tensor,  # (N, N) or (P, N, N)
    temperature: float,
) -> Tensor:
    """½ Σ_j P_ij log 2P_ij / (P_ij + Q_ij) + Q_ij log 2Q_ij / (P_ij + Q_ij), mean over anchors i
    and positives -> ().

    P_i is the softmax of anchor i's list cos(f(x_i), f(x_j)′) / τ over all sentences j, the
    positive included. Q_i is that of the second list cos(f(x_i)′, f(x_j)) / τ, which is column i.
    In [0, log 2], and exactly 0 for equal lists.
    """
    log_p = (cosines / temperature).log_softmax(dim=-1)
    log_q = (cosines.mT / temperature).log_softmax(dim=-1)
    log_sum = torch.logaddexp(log_p, log_q)  # log (P + Q)

    # logaddexp(p, p) is log 2P, and equal to log (P + Q) to the last bit where P = Q.
    p = log_p.exp()
    from_p = p * (torch.logaddexp(log_p, log_p) - log_sum)
    q = log_q.exp()
    from_q = q * (torch.logaddexp(log_q, log_q) - log_sum)

    divergences = (from_p + from_q).sum(dim=-1)  # (N,) or (P, N)
    return divergences.mean() / 2


@dataclass(frozen=True)
class Consistency:
    """Both views of a sentence rank the others alike; ``weight`` is β of Eq. 6. BibTeX:
    liu2023rankcse.
    """

    stage = "terms"
    temperature: AboveZero = 0.05
    weight: NonNegative = 1.0

    def __call__(self, scores: Scores) -> Tensor:
        loss = consistency(scores.pairs, self.temperature)
        return self.weight * loss
