"""DCLR's noise as its public code moves it: with the whole batch in the denominator of Eq. 2.

The paper (Zhou et al., ACL 2022, Eq. 2; https://aclanthology.org/2022.acl-long.423) has noise alone:
``scores/noise.py``.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.scores.noise import Noise, pulled
from isotrope.types import Scores


def gradient_against_batch(
    noise: Tensor,  # (K, D)
    anchor: Tensor,  # (N, D)
    batch: Tensor,  # (N, N) cosines of the anchors and the first positives
    temperature: float,
) -> Tensor:
    """The gradient of Eq. 2 whose denominator holds noise and batch, in closed form -> (K, D)."""
    near = F.normalize(anchor, dim=-1) @ F.normalize(noise, dim=-1).T  # (N, K)
    share = (torch.cat([near, batch], dim=1) / temperature).softmax(dim=1)[:, : len(noise)]
    return pulled(share, noise, anchor, temperature)


class AgainstBatch(Noise):
    """Noise negatives that also flee the batch, with the first positives. BibTeX: zhou2022dclr."""

    def moved(self, noise: Tensor, step_size: float | Tensor, scores: Scores) -> Tensor:
        anchor, batch = scores.views.stack[0].detach(), scores.pairs[0].detach()
        for _ in range(self.steps):
            slope = gradient_against_batch(noise, anchor, batch, self.temperature)
            noise = noise + step_size * F.normalize(slope, dim=-1)
        return noise
