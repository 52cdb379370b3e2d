"""PCL: contrast and cooperation of peers (Wu et al., EMNLP 2022).
https://aclanthology.org/2022.emnlp-main.826
"""

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from isotrope.terms._queue import without_positive
from isotrope.terms.infonce import infonce
from isotrope.terms.queue_kl import divergence
from isotrope.types import AboveZero, NonNegative, Scores, Whole

Numbers = Annotated[tuple[Whole, ...], Field(min_length=2)]  # of an anchor and its positives


def group_list(
    anchor: Tensor,  # a (N, D)
    stack: Tensor,  # (1 + P, N, D): others o, then positives p
    temperature: float,
) -> Tensor:
    """Log softmax (N, P + N − 1) of cos(a_i, p_ri)/τ for P positives r, then cos(a_i, o_j)/τ for
    all j ≠ i.
    """
    anchor = F.normalize(anchor, dim=-1)
    negatives = F.normalize(stack[0], dim=-1)
    positives = F.normalize(stack[1:], dim=-1)
    to_positives = (anchor * positives).sum(dim=-1)  # (P, N)
    to_negatives = without_positive(anchor @ negatives.T)  # (N, N − 1)
    cosines = torch.cat([to_positives.T, to_negatives], dim=1)
    return (cosines / temperature).log_softmax(dim=1)


def group_contrast(
    stack: Tensor,  # (V, N, D): anchors a, then P positives p
    temperature: float,
) -> Tensor:
    """−log q_ir, mean over sentences i and positives r -> ().

    q_ir = e^{cos(a_i, p_ri)/τ} / (Σ_r e^{cos(a_i, p_ri)/τ} + Σ_{j≠i} e^{cos(a_i, a_j)/τ}).
    """
    positive_count = len(stack) - 1
    log_q = group_list(stack[0], stack, temperature)  # (N, P + N − 1)
    log_q_positives = log_q[:, :positive_count]
    return -log_q_positives.mean()


def peer_lists(
    student: Tensor,  # (V, N, D): anchors, then positives
    peer: Tensor,  # (V, N, D): those of the second encoder
    temperature: float,
) -> Tensor:
    """KL(q′ ‖ q) of the lists within each encoder + KL(r′ ‖ r) of those across, means over all
    entries -> ().

    q and q′ are `group_list` of each encoder's anchors with its own stack, r and r′ with the
    other's. As in the public code, a divergence is divided by the length of its list, V + N − 2.
    """
    log_q = group_list(student[0], student, temperature)
    log_q_peer = group_list(peer[0], peer, temperature)
    log_r = group_list(student[0], peer, temperature)
    log_r_peer = group_list(peer[0], student, temperature)
    within = divergence(log_q, log_q_peer)
    across = divergence(log_r, log_r_peer)
    length = log_q.shape[1]
    return (within + across) / length


@dataclass(frozen=True)
class Group:
    """All positives of a sentence share one softmax; and InfoNCE of the first two views. BibTeX:
    wu2022pcl.
    """

    stage = "terms"
    # the anchor, a second copy, then the changed copies, counted as the passes
    views: Numbers = (0, 1)
    temperature: AboveZero = 0.05
    weight: NonNegative = 1.0

    def __call__(self, scores: Scores) -> Tensor:
        stack = scores.views.named(self.views, "terms.group.views")
        first = F.normalize(stack[0], dim=-1)
        second = F.normalize(stack[1], dim=-1)
        pair_loss = infonce(first @ second.T, self.temperature)
        group_loss = group_contrast(stack, self.temperature)
        return self.weight * (pair_loss + group_loss)


@dataclass(frozen=True)
class PeerLists:
    """Two encoders agree on their lists of positives and negatives; both get the gradient. BibTeX:
    wu2022pcl.
    """

    stage = "terms"
    own: Numbers  # views of the student: the anchor, then positives, counted as the passes
    peer: Numbers  # those of the second encoder, as many
    temperature: AboveZero = 0.05
    weight: NonNegative = 1.0

    def __call__(self, scores: Scores) -> Tensor:
        student = scores.views.named(self.own, "terms.peer_lists.own")
        peer = scores.views.named(self.peer, "terms.peer_lists.peer")
        loss = peer_lists(student, peer, self.temperature)
        return self.weight * loss
