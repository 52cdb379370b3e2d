"""ArcCSE's triplets: a copy that lacks less is nearer than one that lacks more (Zhang et al., ACL 2022).

https://aclanthology.org/2022.acl-long.336
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from isotrope.types import Count, NonNegative, Scores


def triplet(
    anchor: Tensor,  # (N, D)
    near: Tensor,  # (N, D)
    far: Tensor,  # (N, D)
    margin: float = 0.0,
) -> Tensor:
    """max(0, cos(a_i, far_i) − cos(a_i, near_i) + m), mean over sentences i -> ()."""
    closeness = [F.cosine_similarity(anchor, other, dim=-1) for other in (near, far)]  # (N,) each
    return (closeness[1] - closeness[0] + margin).clamp(min=0).mean()


@dataclass(frozen=True)
class Triplet:
    """Two views in their order of nearness to the anchor. BibTeX: zhang2022arccse.

    Args:
        near: the view that is to be nearer, counted as the passes: 0 is the anchor.
        far: the view that is to be further away.
        margin: by how much, as a cosine.
    """

    stage = "terms"
    near: Count = 1
    far: Count = 2
    margin: NonNegative = 0.0
    weight: NonNegative = 0.1

    def __call__(self, scores: Scores) -> Tensor:
        anchor, near, far = scores.views.named([0, self.near, self.far], "the views of terms.triplet")
        return self.weight * triplet(anchor, near, far, self.margin)
