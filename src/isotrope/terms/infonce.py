"""InfoNCE with in-batch negatives: one equation for three papers.

SimCSE (Gao et al., EMNLP 2021, Eq. 1) = RankCSE Eq. 1; summed over several positives it is
WhitenedCSE Eq. 7; with extra noise columns and ``keep`` from instance weights it is DCLR Eq. 6.
https://aclanthology.org/2021.emnlp-main.552
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from isotrope.contract.diagonal import on_diagonal
from isotrope.types import AboveZero, NonNegative, Scores


def infonce(
    cosines: Tensor,  # (N, M) or (P, N, M), M >= N
    temperature: float,
    keep: Tensor | None = None,  # (N, M)
    weight: float = 1.0,
    positive_in_denominator: bool = True,
) -> Tensor:
    """-log e^{s_ii/τ} / Σ_j keep_ij e^{s_ij/τ}, mean over anchors i, times ``weight``, summed over
    positives -> ().

    The positive of anchor i stands on the diagonal. It stays in the denominator whatever ``keep``
    says, unless ``positive_in_denominator`` is false: then the diagonal leaves it, as DCLR prints
    Eq. 6 (unbounded below).
    """
    logits = cosines / temperature
    positive = logits.diagonal(dim1=-2, dim2=-1)  # (N,) or (P, N)
    diagonal = on_diagonal(logits)  # (N, M)
    in_denominator = torch.ones_like(diagonal) if keep is None else keep.bool()
    in_denominator = in_denominator | diagonal
    if not positive_in_denominator:
        in_denominator = in_denominator & ~diagonal
    candidates = logits.masked_fill(~in_denominator, -torch.inf)
    partition = candidates.logsumexp(dim=-1)  # log Σ_j, (N,) or (P, N)
    return weight * (partition - positive).mean(dim=-1).sum()


@dataclass(frozen=True)
class InfoNCE:
    """Pull every anchor to its positives, push it from all other candidates of the batch. BibTeX:
    gao2021simcse.
    """

    stage = "terms"
    temperature: AboveZero = 0.05
    weight: NonNegative = 1.0
    positive_in_denominator: bool = True

    def __call__(self, scores: Scores) -> Tensor:
        return infonce(
            scores.cosines, self.temperature, scores.keep, self.weight, self.positive_in_denominator
        )
