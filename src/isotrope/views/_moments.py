"""Mean and covariance of channels in shuffled groups: of a batch, and over batches.

The latter is Eq. 13 of WhitenedCSE.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Moments(NamedTuple):
    """Mean and covariance of channels.

    Of all D channels, (D,) and (D, D); of the groups of V views, (V, G, C, 1) and (V, G, C, C).
    """

    mean: Tensor
    covariance: Tensor


def into_groups(
    z: Tensor,  # (P, N, D)
    order: Tensor,  # (V, D)
    groups: int,
) -> Tensor:
    """Shuffle the channels and cut them into groups -> (V, G, C, N).

    Channel ``order[v, i]`` of view v goes to place i, and C = D / G neighbours are a group. Of V
    views and P passes, V / P views in a row are of the same pass.
    """
    passes, sentences, dim = z.shape
    views = len(order)
    channels = z.mT.repeat_interleave(views // passes, dim=0)  # (V, D, N)
    shuffled = _permuted(channels, order)
    return shuffled.view(views, groups, dim // groups, sentences)


def out_of_groups(
    x: Tensor,  # (V, G, C, N)
    order: Tensor,  # (V, D)
) -> Tensor:
    """Put every channel back to its own place -> (V, N, D)."""
    shuffled = x.flatten(1, 2)  # (V, D, N)
    own_places = order.argsort(-1)
    channels = _permuted(shuffled, own_places)
    return channels.mT


def _permuted(x: Tensor, order: Tensor) -> Tensor:
    """Row ``order[v, i]`` of matrix v goes to place i: (V, D, N), (V, D) -> (V, D, N)."""
    permuted = []
    for matrix, rows in zip(x, order, strict=True):
        shuffled = matrix.index_select(0, rows)
        permuted.append(shuffled)
    return torch.stack(permuted)


def centre(x: Tensor) -> tuple[Tensor, Tensor]:
    """The mean (…, C, 1) of x (…, C, N), and x without it.

    It is counted from the first sentence. So a constant channel has no variance at all, however
    large it is.
    """
    first = x[..., :1].detach()
    mean_from_first = (x - first).mean(-1, keepdim=True)
    mean = first + mean_from_first
    return mean, x - mean


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Features (V, G, C, N) without their mean, and their covariance (V, G, C, C).

    The covariance is divided by N, not by N - 1.
    """
    _, centred = centre(x)
    products = centred @ centred.mT
    sentences = x.shape[-1]
    return centred, products / sentences


class Momentum(nn.Module):
    """Running mean and covariance, Eq. 13: μ ← β μ + (1 − β) x̄, Σ ← β Σ + (1 − β) σ.

    They start at the first batch's mean and mean variance.

    Attributes:
        mean: μ (D,).
        covariance: Σ (D, D), of all channels, because every shuffle takes other blocks of it.
        batches: how many batches the two have seen.
    """

    def __init__(self, dim: int, beta: float) -> None:
        super().__init__()
        self.beta = beta
        self.mean: Tensor = nn.Buffer(torch.zeros(dim))
        self.covariance: Tensor = nn.Buffer(torch.eye(dim))
        self.batches: Tensor = nn.Buffer(torch.tensor(0))

    def forward(
        self,
        rows: Tensor,  # (N, D)
        before: bool = False,
    ) -> Moments:
        """Count the rows, and return mean (D,) and covariance (D, D).

        They contain these rows, with their gradient. With ``before``, they are those of the batches
        before.
        """
        mean, centred = centre(rows.mT)  # (D, 1), (D, N)
        mean = mean[:, 0]

        self.start_from(mean, centred)
        past = self.so_far(rows)
        blended = self.blend(mean, centred)
        self.remember(blended)
        return past if before else blended

    @torch.no_grad()
    def start_from(
        self,
        batch_mean: Tensor,  # (D,)
        centred: Tensor,  # (D, N)
    ) -> None:
        """In the first batch, begin with its mean and its mean variance.

        Whether it is the first is decided where the tensors are, so that nobody waits for a GPU.
        """
        is_first = self.batches == 0
        mean = torch.where(is_first, batch_mean, self.mean)
        self.mean.copy_(mean)

        # Outside its diagonal, the covariance is still zero.
        diagonal = self.covariance.diagonal()
        batch_variance = centred.square().mean()
        variance = torch.where(is_first, batch_variance, diagonal)
        diagonal.copy_(variance)

    def blend(
        self,
        batch_mean: Tensor,  # (D,)
        centred: Tensor,  # (D, N)
    ) -> Moments:
        """Eq. 13 with a batch -> mean (D,), covariance (D, D), with the batch's gradient."""
        past = self.so_far(centred)
        mean = torch.lerp(batch_mean, past.mean, self.beta)

        sentences = centred.shape[1]
        covariance = torch.addmm(
            past.covariance,
            centred,
            centred.mT,
            beta=self.beta,
            alpha=(1 - self.beta) / sentences,
        )
        return Moments(mean, covariance)

    def remember(self, statistics: Moments) -> None:
        """Keep the statistics for the next batch."""
        mean = statistics.mean.detach()
        covariance = statistics.covariance.detach()
        self.mean = mean.to(self.mean)
        self.covariance = covariance.to(self.covariance)
        self.batches.add_(1)

    def so_far(self, like: Tensor) -> Moments:
        """The statistics of all batches so far -> mean (D,), covariance (D, D), as ``like``."""
        mean = self.mean.to(like)
        covariance = self.covariance.to(like)
        return Moments(mean, covariance)


def blocks(
    statistics: Moments,  # of all channels
    order: Tensor,  # (V, D): each view's order of them
    groups: int,
) -> Moments:
    """Mean (V, G, C, 1) and covariance (V, G, C, C) of each view's groups."""
    views = len(order)
    channels = order.view(views, groups, -1)  # (V, G, C)
    rows = channels.unsqueeze(-1)  # (V, G, C, 1)
    columns = channels.unsqueeze(-2)  # (V, G, 1, C)
    return Moments(
        mean=statistics.mean[rows],
        covariance=statistics.covariance[rows, columns],
    )
