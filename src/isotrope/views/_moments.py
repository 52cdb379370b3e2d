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
    return torch.stack([rows.index_select(0, own) for rows, own in zip(x, order, strict=True)])


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
        middle, centred = centre(rows.mT)  # (D, 1), (D, N)
        # Whether it is the first batch is decided where the tensors are, so that nobody waits for a
        # GPU.
        # off the diagonal is nothing yet
        first, diagonal = self.batches == 0, self.covariance.diagonal()
        self.mean.copy_(torch.where(first, middle[:, 0].detach(), self.mean))
        diagonal.copy_(torch.where(first, centred.detach().square().mean(), diagonal))
        mean, covariance = past = self.kept(rows)
        mean = torch.lerp(middle[:, 0], mean, self.beta)
        covariance = torch.addmm(
            covariance, centred, centred.mT, beta=self.beta, alpha=(1 - self.beta) / len(rows)
        )
        self.mean = mean.detach().to(self.mean)
        self.covariance = covariance.detach().to(self.covariance)
        self.batches.add_(1)
        return past if before else (mean, covariance)

    def kept(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """What the batches so far have left -> mean (D,), covariance (D, D), in the precision of
        ``like``.
        """
        return self.mean.to(like), self.covariance.to(like)


def blocks(statistics: tuple[Tensor, Tensor], order: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Mean (V, G, C, 1) and covariance (V, G, C, C) of each view's groups, for orders (V, D) of the
    channels.
    """
    mean, covariance = statistics
    place = order.view(len(order), groups, -1)  # (V, G, C)
    return mean[place].unsqueeze(-1), covariance[place[..., :, None], place[..., None, :]]
