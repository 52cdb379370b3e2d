"""Shuffled group whitening: a batch made isotropic in groups of channels, each time in other groups.

WhitenedCSE (Zhuo et al., ACL 2023, Sec. 3.2 and 5.2). https://aclanthology.org/2023.acl-long.677
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Annotated, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field
from sentence_transformers.base.modules import Normalize
from torch import Tensor, nn

from isotrope.contract.context import BuildContext
from isotrope.encoder.pooling import dense
from isotrope.errors import UserError
from isotrope.types import Count, NonNegative, Views
from isotrope.views._groups import check_groups, into_groups, out_of_groups
from isotrope.views._inverse_sqrt import Method, inverse_sqrt
from isotrope.views._moments import Momentum, blocks, moments, ridge


def group_whiten(
    z: Tensor,  # (N, D) or (V, N, D)
    groups: int,
    order: Tensor | None = None,  # (D,) or (V, D)
    method: Method = "zca",
    eps: float = 0.0,
) -> Tensor:
    """WhitenedCSE Eq. 3-6: H = shuffle⁻¹(concat_g((Z_g - mean) W_g)), W_g = Σ_g^-1/2 -> the shape of z.

    Channel ``order[i]`` goes to place i, and comes back; groups are neighbouring places. Σ_g (C, C), C = D / groups, is
    the covariance over the N sentences, plus ``eps``·I. In float32 or better, also under autocast. A direction without
    variance (a constant channel, equal sentences) comes out as 0.
    """
    count, dim = z.shape[-2:]
    check_groups("groups", groups, dim)
    if eps == 0 and count <= dim // groups:
        raise UserError(
            f"a batch of {count} cannot whiten {dim // groups} channels a group",
            "take larger batches, more groups, or eps > 0",
        )
    order = torch.arange(dim, device=z.device) if order is None else order.to(z.device)
    order = order.expand(*z.shape[:-2], dim).reshape(-1, dim)  # (V, D)
    with torch.autocast(z.device.type, enabled=False):
        x = into_groups(_precise(z).reshape(-1, count, dim), order, groups)  # (V, G, C, N)
        centred, covariance = moments(x)
        whitening = inverse_sqrt(ridge(covariance, eps), method).mT  # (V, G, C, C)
        return out_of_groups(whitening @ centred, order).reshape(z.shape)


class SGW(nn.Module):
    """(P, N, D) -> (P·copies, N, D): every view whitened by its own statistics, with its own shuffle. BibTeX:
    zhuo2023whitenedcse.

    Each pass is whitened ``copies`` times. The paper's text has passes = 1 and copies = 3, its code passes = 3.
    Hard negatives are whitened with the anchor view's mean and matrix, and change neither.

    Eq. 13 follows mean and covariance over the batches. In evaluation mode they whiten, and channels keep their order,
    so that a sentence has one result whatever its batch. In training they whiten where N <= C, and always with
    ``running``. They start at the first batch's mean and mean variance. Evaluation before any training has none yet,
    and uses the batch's.

    Args:
        groups: k, their number; it divides D.
        method: zca, or pca, whose axes swap from batch to batch.
        normalize: divide rows by their norm first. ``eps``: added to the variances.
        running: true: Eq. 13 with the batch at hand, and its gradient. "before": as printed, of the batches before it,
            without gradient. false: the batch's own statistics.
        momentum: β of Eq. 13, which does not state it.
        dim: D; None: the student's, from ``build(context)``.

    Raises:
        UserError: groups do not divide D; copies that cannot differ; a training batch of one sentence.
    """

    stage = "views"

    def __init__(
        self,
        groups: Count,
        method: Method = "zca",
        shuffle: bool = True,
        copies: Count = 1,
        normalize: bool = False,
        running: Literal[True, False, "before"] = False,
        momentum: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.9,
        eps: NonNegative = 0.0,
        dim: Count | None = None,
    ) -> None:
        super().__init__()
        self.groups, self.method, self.shuffle, self.copies = groups, method, shuffle, copies
        self.normalize, self.running = normalize, running
        self.eps, self.beta, self.dim = eps, momentum, dim
        if dim is not None:
            self._begin(dim)

    def build(self, context: BuildContext) -> Self:
        """With statistics for the student's width, if none was given."""
        if self.dim is not None:
            return self
        made = deepcopy(self)
        made._begin(context.needed("width"))
        return made

    def _begin(self, dim: int) -> None:
        check_groups("views.sgw.groups", self.groups, dim)
        if self.copies > 1 and not (self.shuffle and 1 < self.groups < dim):
            remedy = f"set shuffle = true and groups between 1 and {dim}"
            raise UserError(f"views.sgw.copies = {self.copies} would all be equal", remedy)
        self.dim, self.momentum = dim, Momentum(dim, self.beta)

    def layers(self) -> list[nn.Module]:
        """What it does in evaluation mode, for a model that keeps it: one linear map, by the statistics so far."""
        mean, covariance = self.momentum.kept(self.momentum.mean)
        order = torch.arange(len(mean), device=mean.device)[None]
        whitening = self.whitening(blocks((mean, covariance), order, self.groups)[1])[0]  # (G, C, C)
        matrix: Tensor = torch.block_diag(*whitening)  # type: ignore[no-untyped-call]  # (D, D)
        return [*([Normalize()] if self.normalize else []), dense(matrix, -matrix @ mean)]

    def forward(self, views: Views) -> Views:
        with torch.autocast(views.stack.device.type, enabled=False):
            stack, negatives = self._rows(views.stack), self._rows(views.negatives)
            order = self._order(len(stack) * self.copies, views.batch.generator)  # (V, D)
            order = order.to(stack.device, non_blocking=True)
            x = into_groups(stack, order, self.groups)  # (V, G, C, N)
            centred, covariance = self._statistics(stack, x, order)
            whitening = self.whitening(covariance)
            hard = into_groups(negatives.flatten(0, 1)[None], order[:1], self.groups)  # (1, G, C, N·H)
            hard = hard - (x[:1, ..., :1] - centred[:1, ..., :1])  # the anchor view's mean
            hard = out_of_groups(whitening[:1] @ hard, order[:1]).reshape(negatives.shape)
            return replace(views, stack=out_of_groups(whitening @ centred, order), negatives=hard)

    def whitening(self, covariance: Tensor) -> Tensor:
        """Wᵀ of each group (V, G, C, C), of its covariance."""
        return inverse_sqrt(ridge(covariance, self.eps), self.method).mT

    def _rows(self, z: Tensor) -> Tensor:
        return F.normalize(_precise(z), dim=-1) if self.normalize else _precise(z)

    def _order(self, count: int, generator: torch.Generator) -> Tensor:
        """A permutation of the channels for every view, from the batch's generator -> (V, D)."""
        dim = len(self.momentum.mean)
        if self.shuffle and self.training:
            return torch.rand(count, dim, generator=generator, dtype=torch.float64).argsort(-1)
        return torch.arange(dim).expand(count, -1)

    def _statistics(self, stack: Tensor, x: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
        """Features x (V, G, C, N) less the mean, and covariance (V, G, C, C): of the batch, or of all so far."""
        size, count = x.shape[-2:]
        if self.training and count == 1:
            raise UserError("a batch of one sentence cannot be whitened", "train with batches of two or more")
        if self.training:
            running, before = bool(self.running) or count <= size, self.running == "before"
            rows = stack if running and not before else stack.detach()
            statistics = self.momentum(rows.flatten(0, 1), before)  # of all passes together
        else:
            running, statistics = bool(self.momentum.batches), self.momentum.kept(x)
        if running:
            mean, covariance = blocks(statistics, order, self.groups)
            return x - mean, covariance
        if count <= size:
            raise UserError(f"a batch of {count} cannot whiten {size} channels a group", "train first, for statistics")
        return moments(x)


def _precise(z: Tensor) -> Tensor:
    return z.to(torch.promote_types(z.dtype, torch.float32))
