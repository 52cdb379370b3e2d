"""Eq. 13 of WhitenedCSE: mean and covariance of all channels, followed from batch to batch.

Zhuo et al., ACL 2023, Sec. 5.2. https://aclanthology.org/2023.acl-long.677
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from isotrope.views._moments import centre


class Momentum(nn.Module):
    """μ ← β μ + (1 − β) x̄, Σ ← β Σ + (1 − β) σ; starts at the first batch's mean and mean variance."""

    mean: Tensor  # (D,)
    covariance: Tensor  # (D, D): whole, since every shuffle takes other blocks of it
    batches: Tensor  # () how many the two have seen

    def __init__(self, dim: int, beta: float) -> None:
        super().__init__()
        self.beta = beta
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("covariance", torch.eye(dim))
        self.register_buffer("batches", torch.tensor(0))

    def forward(self, rows: Tensor, before: bool = False) -> tuple[Tensor, Tensor]:
        """Count the rows (N, D) -> mean (D,), covariance (D, D): with these rows and their gradient, or ``before``."""
        middle, centred = centre(rows.mT)  # (D, 1), (D, N)
        self._begin(middle[:, 0].detach(), centred.detach().square().mean())
        mean, covariance = past = self.kept(rows)
        mean = torch.lerp(middle[:, 0], mean, self.beta)
        covariance = torch.addmm(covariance, centred, centred.mT, beta=self.beta, alpha=(1 - self.beta) / len(rows))
        self.mean = mean.detach().to(self.mean)
        self.covariance = covariance.detach().to(self.covariance)
        self.batches.add_(1)
        return past if before else (mean, covariance)

    def kept(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """What the batches so far have left -> mean (D,), covariance (D, D), in the precision of ``like``."""
        return self.mean.to(like), self.covariance.to(like)

    def _begin(self, mean: Tensor, variance: Tensor) -> None:
        """Before the first batch; whether it is the first is decided where the tensors are: nobody waits for a GPU."""
        first, diagonal = self.batches == 0, self.covariance.diagonal()  # off the diagonal is nothing yet
        self.mean.copy_(torch.where(first, mean, self.mean))
        diagonal.copy_(torch.where(first, variance, diagonal))


def blocks(statistics: tuple[Tensor, Tensor], order: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Mean (V, G, C, 1) and covariance (V, G, C, C) of each view's groups, for orders (V, D) of the channels."""
    mean, covariance = statistics
    place = order.view(len(order), groups, -1)  # (V, G, C)
    return mean[place].unsqueeze(-1), covariance[place[..., :, None], place[..., None, :]]
