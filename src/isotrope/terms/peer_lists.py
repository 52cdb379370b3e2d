"""Two encoders agree on their lists of positives and negatives (PCL's network cooperation: Wu et al., EMNLP 2022).

Sec. 3, https://aclanthology.org/2022.emnlp-main.826, as its public code has it.
"""

from dataclasses import dataclass

from torch import Tensor

from isotrope.terms.group import Numbers, group_list
from isotrope.terms.queue_kl import divergence
from isotrope.types import AboveZero, NonNegative, Scores


def peer_lists(
    own: Tensor,  # (V, N, D) anchors a, then positives, of one encoder
    peer: Tensor,  # (V, N, D) the same of the other
    temperature: float,
) -> Tensor:
    """KL(q′ ‖ q) of the lists within each encoder + KL(r′ ‖ r) of those across, mean over sentences -> ().

    q and q′ are `group_list` of each encoder's anchors with its own positives and anchors; r and r′ are those of its
    anchors with the other's.
    """
    within = [group_list(views[0], views[1:], views[0], temperature) for views in (own, peer)]
    across = [group_list(a[0], b[1:], b[0], temperature) for a, b in ((own, peer), (peer, own))]
    return divergence(*within) + divergence(*across)


@dataclass(frozen=True)
class PeerLists:
    """Both encoders get its gradient. BibTeX: wu2022pcl.

    Args:
        own: views of the student: the anchor, then positives, counted as the passes.
        peer: those of the second encoder, as many.
    """

    stage = "terms"
    own: Numbers
    peer: Numbers
    temperature: AboveZero = 0.05
    weight: NonNegative = 1.0

    def __call__(self, scores: Scores) -> Tensor:
        named = {"terms.peer_lists.own": self.own, "terms.peer_lists.peer": self.peer}
        own, peer = (scores.views.named(views, key) for key, views in named.items())
        return self.weight * peer_lists(own, peer, self.temperature)
