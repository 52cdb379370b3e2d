"""BERT-flow: an invertible map, fitted by maximum likelihood, from an encoder's vectors to a
Gaussian.

Li et al., EMNLP 2020, https://arxiv.org/abs/2011.05864. The map is Glow,
https://arxiv.org/abs/1807.03039: steps of actnorm, mixing of the channels, coupling. As the public
BERT-flow, it has random permutations and additive couplings; without its multi-scale split, all
channels pass all steps.
"""

import math

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from isotrope.console.progress import tell
from isotrope.errors import UserError
from isotrope.post.fitted import PostStep, Transform
from isotrope.types import AboveZero, Count, Matrix

BATCH = 64  # vectors a step of the optimizer
WIDTH = 32  # hidden units of a coupling's network


class GlowStep(nn.Module):
    """(N, D) -> (N, D) and log |det| (N,): z = (x − μ) exp(−s), then z M, then its second half is
    moved by the first.

    μ and s begin as the data's mean and log standard deviation; M is a permutation. The last layer
    of the coupling's network begins at zero, so that the coupling begins as the identity.
    """

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(dim))
        self.log_scale = nn.Parameter(torch.zeros(dim))
        self.first_count = dim // 2
        order = torch.randperm(dim)
        permutation = torch.eye(dim)[order]
        self.mix: Tensor = nn.Buffer(permutation)
        last = nn.Linear(width, dim - self.first_count)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.network = nn.Sequential(
            nn.Linear(self.first_count, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            last,
        )

    def begin(self, x: Tensor) -> None:
        """Set μ and s from rows (N, D); a channel that is constant keeps the scale 1."""
        mean = x.mean(dim=0)
        spread = x.std(dim=0, correction=0)
        smallest = 1e-6 * spread.max()
        scale = torch.where(spread > smallest, spread, 1)
        self.mean.copy_(mean)
        self.log_scale.copy_(scale.log())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        centred = x - self.mean
        normed = centred * torch.exp(-self.log_scale)
        mixed = normed @ self.mix
        first, second = mixed.tensor_split([self.first_count], dim=1)
        moved = second + self.network(first)
        z = torch.cat([first, moved], dim=1)
        log_determinant = -self.log_scale.sum()  # alike for all rows
        return z, log_determinant.expand(len(x))


class Glow(nn.Module):
    """``depth`` steps, from vectors (N, D) to what is to be Gaussian."""

    def __init__(self, dim: int, depth: int, width: int) -> None:
        super().__init__()
        self.steps = nn.ModuleList()
        for _ in range(depth):
            step = GlowStep(dim, width)
            self.steps.append(step)

    @torch.no_grad()
    def begin(self, x: Tensor) -> None:
        for step in self.steps:
            step.begin(x)  # type: ignore[operator]
            x, _ = step(x)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors (N, D) -> z (N, D) and log |det ∂z/∂x| (N,)."""
        volume = x.new_zeros(len(x))
        for step in self.steps:
            x, log_determinant = step(x)
            volume = volume + log_determinant
        return x, volume


def negative_log_likelihood(
    z: Tensor,  # (N, D)
    volume: Tensor,  # log |det ∂z/∂x| (N,)
) -> Tensor:
    """−log p(x) = ‖z‖²/2 + (D/2) log 2π − log |det ∂z/∂x|, mean over rows, a dimension -> ()."""
    dim = z.shape[1]
    squares = (z**2).sum(dim=1)  # (N,)
    constant = dim / 2 * math.log(2 * math.pi)
    losses = squares / 2 + constant - volume
    return losses.mean() / dim


class Flow(PostStep):
    """``+flow``: BERT-flow, as published one epoch at a learning rate of 1e-3. BibTeX:
    li2020bertflow.
    """

    lr: AboveZero = 1e-3  # of Adam
    epochs: Count = 1
    depth: Count = 9  # steps of the flow
    seed: int = Field(default=0, ge=0)  # of weights, permutations and the order of the sentences

    def fitted(self, vectors: Matrix) -> Transform:
        """The map x -> z of maximum likelihood; NaN if ``lr`` is too large."""
        training_rows = torch.from_numpy(vectors).float()
        glow = self.train(training_rows)

        def transform(x: Matrix) -> Matrix:
            rows = torch.from_numpy(x).float()
            with torch.inference_mode():
                z, _ = glow(rows)
            return np.asarray(z.double().numpy())

        return transform

    def train(self, x: Tensor) -> Glow:
        """Fit to rows (N, D), in batches of a seeded random order; also where the caller wants no
        gradients.
        """
        with torch.inference_mode(False), torch.enable_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            x = x.clone()
            glow = Glow(x.shape[1], self.depth, WIDTH)
            glow.begin(x)
            optimizer = torch.optim.Adam(glow.parameters(), lr=self.lr)
            for _ in range(self.epochs):
                self._epoch(glow, optimizer, x)
        return glow

    def _epoch(self, glow: Glow, optimizer: torch.optim.Optimizer, x: Tensor) -> None:
        """Fit once to all rows (N, D), in random order."""
        order = torch.randperm(len(x))
        batches = torch.split(order, BATCH)
        for number, rows in enumerate(batches):
            tell("fitted the flow to", number * BATCH, len(x))
            self._step(glow, optimizer, x[rows])

    def _step(self, glow: Glow, optimizer: torch.optim.Optimizer, x: Tensor) -> None:
        """One step of the optimizer on rows (n, D)."""
        z, volume = glow(x)
        loss = negative_log_likelihood(z, volume)
        if not torch.isfinite(loss):
            problem = f"the flow's fit diverged at lr = {self.lr}"
            raise UserError(problem, "choose a smaller lr", code="diverged")
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
