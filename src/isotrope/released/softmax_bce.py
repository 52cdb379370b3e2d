"""DCLR's loss as its public code computes it: a softmax, then binary cross-entropy on every entry of it.

The paper (Zhou et al., ACL 2022, Eq. 6; https://aclanthology.org/2022.acl-long.423) has cross-entropy: ``infonce``.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from isotrope.types import AboveZero, NonNegative, Scores


def softmax_bce(
    cosines: Tensor,  # (N, M) or (P, N, M), M >= N
    temperature: float,
    keep: Tensor | None = None,  # (N, M)
) -> Tensor:
    """-[log p_ii + Σ_{j≠i} log (1 - p_ij)] / M, p_i = softmax(s_i / τ); mean over anchors, summed over positives -> ().

    In log space, where the public code can give NaN; a candidate that is not kept has p = 0. The positive is pulled M
    times more weakly than by InfoNCE.
    """
    logits = cosines / temperature
    if keep is not None:
        logits = logits.masked_fill(keep == 0, -torch.inf)
    diagonal = torch.eye(*logits.shape[-2:], dtype=torch.bool, device=logits.device)
    log_p = logits.log_softmax(dim=-1)
    tiny = torch.finfo(log_p.dtype).eps
    log_not_p = torch.log(-torch.expm1(log_p.masked_fill(diagonal, -torch.inf).clamp(max=-tiny)))  # log (1 - p)
    return -torch.where(diagonal, log_p, log_not_p).mean(dim=(-2, -1)).sum()


@dataclass(frozen=True)
class SoftmaxBCE:
    """For comparison with runs of the public code. BibTeX: zhou2022dclr."""

    stage = "terms"
    temperature: AboveZero = 0.05
    weight: NonNegative = 1.0

    def __call__(self, scores: Scores) -> Tensor:
        return self.weight * softmax_bce(scores.cosines, self.temperature, scores.keep)
