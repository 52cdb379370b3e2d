"""DCLR as its public code computes it, where that is not its paper.
https://aclanthology.org/2022.acl-long.423

The paper says nothing of a missing attention mask (Sec. 3), has noise alone in the denominator of
Eq. 2, removes a false negative in Eq. 5, and has cross-entropy in Eq. 6.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.contract.diagonal import on_diagonal
from isotrope.scores.instance_weight import InstanceWeight
from isotrope.scores.noise import Noise, gradient
from isotrope.tokens._inner import Features
from isotrope.types import AboveZero, NonNegative, Scores


def softmax_bce(
    cosines: Tensor,  # (N, M) or (P, N, M), M >= N
    temperature: float,
    keep: Tensor | None = None,  # (N, M)
) -> Tensor:
    """-[log p_ii + Σ_{j≠i} log (1 - p_ij)] / M, p_i = softmax(s_i / τ); mean over anchors, summed
    over positives -> ().

    A softmax, then binary cross-entropy on every entry of it. In log space, where the public code
    can give NaN; a candidate that is not kept has p = 0. The positive is pulled M times more weakly
    than by InfoNCE.
    """
    logits = cosines / temperature
    if keep is not None:
        logits = logits.masked_fill(keep == 0, -torch.inf)
    diagonal = on_diagonal(logits)  # (N, M)
    log_p = logits.log_softmax(dim=-1)

    # log (1 - p), which is finite for p = 1 too
    tiny = torch.finfo(log_p.dtype).eps
    log_p_negatives = log_p.masked_fill(diagonal, -torch.inf)
    log_p_negatives = log_p_negatives.clamp(max=-tiny)
    log_not_p = torch.log(-torch.expm1(log_p_negatives))

    log_likelihoods = torch.where(diagonal, log_p, log_not_p)  # (N, M) or (P, N, M)
    return -log_likelihoods.mean(dim=(-2, -1)).sum()


@dataclass(frozen=True)
class NoMask:
    """Padding, up to a batch's longest sentence, counts as tokens: the mask (N, L) is 1. BibTeX:
    zhou2022dclr.
    """

    stage = "tokens"

    def __call__(self, features: Features, generator: torch.Generator) -> Features:
        mask = torch.ones_like(features["attention_mask"])
        return {**features, "attention_mask": mask}


class AgainstBatch(Noise):
    """Noise negatives that also flee the batch, with the first positives. BibTeX: zhou2022dclr."""

    def moved(self, noise: Tensor, step_size: float | Tensor, scores: Scores) -> Tensor:
        anchor = scores.views.stack[0].detach()
        batch = scores.pairs[0].detach()
        for _ in range(self.steps):
            slope = gradient(noise, anchor, self.temperature, batch)
            direction = F.normalize(slope, dim=-1)
            noise = noise + step_size * direction
        return noise


class ZeroLogit(InstanceWeight):
    """The *cosine* of a false negative becomes 0: its term is e⁰, not none. All terms see it.
    BibTeX: zhou2022dclr.
    """

    def __call__(self, scores: Scores) -> Scores:
        cosines = scores.cosines * self.weights(scores)
        return replace(scores, cosines=cosines)


@dataclass(frozen=True)
class SoftmaxBCE:
    """`softmax_bce`, for comparison with runs of the public code. BibTeX: zhou2022dclr."""

    stage = "terms"
    temperature: AboveZero = 0.05
    weight: NonNegative = 1.0

    def __call__(self, scores: Scores) -> Tensor:
        return self.weight * softmax_bce(scores.cosines, self.temperature, scores.keep)
