"""Mean and covariance of channels in shuffled groups: of a batch, and over batches (WhitenedCSE Eq.
13).
"""

import torch
from torch import Tensor, nn


def into_groups(z: Tensor, order: Tensor, groups: int) -> Tensor:
    """Channel ``order[i]`` goes to place i; C = D / G neighbours are a group. (P, N, D), (V, D) ->
    (V, G, C, N).

    Of V views and P passes, V / P views in a row are of the same pass.
    """
    repeated = z.mT.repeat_interleave(len(order) // len(z), dim=0)  # (V, D, N)
    return _permuted(repeated, order).view(len(order), groups, z.shape[2] // groups, z.shape[1])


def out_of_groups(x: Tensor, order: Tensor) -> Tensor:
    """Every channel back to its own place. (V, G, C, N), (V, D) -> (V, N, D)."""
    return _permuted(x.flatten(1, 2), order.argsort(-1)).mT


def _permuted(x: Tensor, order: Tensor) -> Tensor:
    """Row ``order[v, i]`` of matrix v goes to place i: (V, D, N), (V, D) -> (V, D, N)."""
    permuted = [rows.index_select(0, places) for rows, places in zip(x, order, strict=True)]
    return torch.stack(permuted)


def centre(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (…, C, 1) of x (…, C, N), and x without it.

    Counted from the first sentence, so that a constant channel has no variance at all, whatever its
    size.
    """
    first = x[..., :1].detach()
    mean = first + (x - first).mean(-1, keepdim=True)
    return mean, x - mean


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Features (V, G, C, N) -> the same less their mean, and their covariance over N, not N - 1,
    (V, G, C, C).
    """
    centred = centre(x)[1]
    return centred, centred @ centred.mT / x.shape[-1]


class Momentum(nn.Module):
    """Eq. 13: μ ← β μ + (1 − β) x̄, Σ ← β Σ + (1 − β) σ; starts at the first batch's mean and mean
    variance.
    """

    def __init__(self, dim: int, beta: float) -> None:
        super().__init__()
        self.beta = beta
        self.mean: Tensor = nn.Buffer(torch.zeros(dim))
        # whole, since every shuffle takes other blocks of it
        self.covariance: Tensor = nn.Buffer(torch.eye(dim))
        self.batches: Tensor = nn.Buffer(torch.tensor(0))  # how many the two have seen

    def forward(self, rows: Tensor, before: bool = False) -> tuple[Tensor, Tensor]:
        """Count the rows (N, D) -> mean (D,), covariance (D, D): with these rows and their
        gradient, or ``before``.
        """
        batch_mean, centred = centre(rows.mT)  # (D, 1), (D, N)
        self.start_from(batch_mean[:, 0], centred)
        past = self.so_far(rows)
        blended = self.blend(batch_mean[:, 0], centred)
        self.remember(*blended)
        return past if before else blended

    @torch.no_grad()
    def start_from(self, batch_mean: Tensor, centred: Tensor) -> None:
        """In the first batch, begin with its mean (D,) and its mean variance, of centred (D, N).

        Whether it is the first is decided where the tensors are, so that nobody waits for a GPU.
        """
        is_first = self.batches == 0
        diagonal = self.covariance.diagonal()  # off the diagonal is nothing yet
        self.mean.copy_(torch.where(is_first, batch_mean, self.mean))
        diagonal.copy_(torch.where(is_first, centred.square().mean(), diagonal))

    def blend(self, batch_mean: Tensor, centred: Tensor) -> tuple[Tensor, Tensor]:
        """Eq. 13 with a batch -> mean (D,), covariance (D, D), with the batch's gradient."""
        mean, covariance = self.so_far(centred)
        share = (1 - self.beta) / centred.shape[1]
        return (
            torch.lerp(batch_mean, mean, self.beta),
            torch.addmm(covariance, centred, centred.mT, beta=self.beta, alpha=share),
        )

    def remember(self, mean: Tensor, covariance: Tensor) -> None:
        """Keep the statistics for the next batch."""
        self.mean = mean.detach().to(self.mean)
        self.covariance = covariance.detach().to(self.covariance)
        self.batches.add_(1)

    def so_far(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The statistics of all batches so far -> mean (D,), covariance (D, D), in the precision of
        ``like``.
        """
        return self.mean.to(like), self.covariance.to(like)


def blocks(statistics: tuple[Tensor, Tensor], order: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Mean (V, G, C, 1) and covariance (V, G, C, C) of each view's groups, for orders (V, D) of the
    channels.
    """
    mean, covariance = statistics
    channels = order.view(len(order), groups, -1)  # (V, G, C)
    means = mean[channels].unsqueeze(-1)
    return means, covariance[channels[..., :, None], channels[..., None, :]]
