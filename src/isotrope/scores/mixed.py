"""MixCSE: negatives mixed with the own positive (Zhang et al., 2022).
https://doi.org/10.1609/aaai.v36i10.21428
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.types import Fraction, Scores


def mix_negatives(
    positive: Tensor,  # (N, D)
    partner: Tensor,  # (N,): for each sentence, another one
    share: float,  # λ
) -> Tensor:
    """λ p_i + (1 − λ) p_partner(i) of unit rows p, as unit rows without gradient -> (N, D)."""
    unit = F.normalize(positive.detach(), dim=-1)
    own_part = share * unit
    partner_part = (1 - share) * unit[partner]
    return F.normalize(own_part + partner_part, dim=-1)


@dataclass(frozen=True)
class Mixed:
    """A mixture for each sentence joins every anchor's denominator, but for its partner's. BibTeX:
    zhang2022mixcse.

    A sentence's partner is the one with the next row number in the batch; the last one's is the
    first. So the order of the batch does not matter. The partner does not see the mixture: it is
    mostly its own positive.
    """

    stage = "scores"
    share: Fraction = 0.2  # λ, of a sentence's own first positive

    def __call__(self, scores: Scores) -> Scores:
        order = scores.views.batch.rows.argsort(stable=True)
        next_in_order = order.roll(-1)
        partner = torch.empty_like(order)
        partner[order] = next_in_order  # (N,)

        mixtures = mix_negatives(scores.views.stack[1], partner, self.share)
        grown = scores.with_extra(mixtures)
        first_mixture = scores.keep.shape[1]
        candidates = grown.keep.shape[1]
        columns = torch.arange(first_mixture, candidates, device=partner.device)
        keep = grown.keep.clone()
        keep[partner, columns] = 0
        return replace(grown, keep=keep)
