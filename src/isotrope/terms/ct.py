"""Contrastive Tension (Carlsson et al., ICLR 2021, Sec. 3).
https://openreview.net/forum?id=Ov_sMNau-PF
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.contract.diagonal import on_diagonal
from isotrope.types import Count, NonNegative, Scores


def ct(
    a: Tensor,  # (N, D)
    b: Tensor,  # (N, D)
) -> Tensor:
    """Contrastive tension: binary cross-entropy with logits a_i · b_j and target 1 for i = j, else
    0; the mean over all N² -> ().
    """
    logits = a @ b.T  # (N, N)
    target = on_diagonal(logits).to(logits)
    return F.binary_cross_entropy_with_logits(logits, target)


def ct_pairs(
    a: Tensor,  # (N, D)
    b: Tensor,  # (N, D)
    negatives: int,
) -> Tensor:
    """The same over N pairs: of ``negatives`` + 1 sentences, the first is its own pair -> ().

    Each of the others is compared with the sentence before it.
    """
    places = torch.arange(len(a), device=a.device)
    is_pair = places % (negatives + 1) == 0  # (N,)
    before = b.roll(1, dims=0)
    partners = torch.where(is_pair.unsqueeze(-1), b, before)
    logits = (a * partners).sum(dim=-1)  # (N,)
    return F.binary_cross_entropy_with_logits(logits, is_pair.to(logits))


@dataclass(frozen=True)
class CT:
    """Same sentence or not, from dot products; lengths count. Mean over the positives. BibTeX:
    carlsson2021tension.
    """

    stage = "terms"
    equal_views = True  # two encoders that agree on all sentences have to learn which are different
    # for each sentence, 7 in the paper; None: all others, as in sentence-transformers
    negatives: Count | None = None
    weight: NonNegative = 1.0

    def __call__(self, scores: Scores) -> Tensor:
        order = scores.views.batch.rows.argsort(stable=True)
        anchors, *positives = scores.views.stack[:, order]
        losses = []
        for positive in positives:
            if self.negatives:
                losses.append(ct_pairs(anchors, positive, self.negatives))
            else:
                losses.append(ct(anchors, positive))
        return self.weight * torch.stack(losses).mean()
