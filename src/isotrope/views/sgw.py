"""Shuffled group whitening (WhitenedCSE: Zhuo et al., 2023, Sec. 3.2).
https://aclanthology.org/2023.acl-long.677
"""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from sentence_transformers.base.modules import Normalize
from torch import Tensor, nn

from isotrope.contract.context import BuildContext, StatefulComponent
from isotrope.encoder.pooling import dense
from isotrope.errors import UserError
from isotrope.types import Count, NonNegative, Views
from isotrope.views._inverse_sqrt import Method, inverse_sqrt
from isotrope.views._moments import Momentum, blocks, into_groups, moments, out_of_groups


def group_whiten(
    z: Tensor,  # (N, D) or (V, N, D)
    groups: int,
    order: Tensor | None = None,  # (D,) or (V, D)
    method: Method = "zca",
    eps: float = 0.0,
) -> Tensor:
    """Shuffled group whitening, WhitenedCSE Eq. 3-6: (N, D) -> (N, D), (V, N, D) -> (V, N, D).

    H = shuffle⁻¹(concat_g((Z_g - mean) W_g)) with W_g = Σ_g^-1/2. Σ_g (C, C), C = D / groups, is
    the covariance over the N sentences, plus ``eps``·I. In float32 or better, also under autocast.
    A direction without variance (a constant channel, equal sentences) comes out as 0.

    Args:
        z: embeddings, of V views or of one.
        groups: how many; they are neighbouring places after the shuffle.
        order: channel ``order[i]`` goes to place i, and comes back; None: no shuffle.
        method: ``zca`` or ``pca`` (see `inverse_sqrt`).
        eps: is added to each variance.

    Raises:
        UserError: ``groups`` does not divide D, or the batch is too small for its groups.
    """
    count, dim = z.shape[-2:]
    _check_groups("groups", groups, dim)
    if eps == 0:
        _check_size(count, dim // groups, "take larger batches, more groups, or eps > 0")

    views = _precise(z).reshape(-1, count, dim)  # (V, N, D)
    if order is None:
        order = torch.arange(dim)
    order = order.to(z.device)
    order = order.expand(len(views), dim)  # (V, D)

    with torch.autocast(z.device.type, enabled=False):
        grouped = into_groups(views, order, groups)  # (V, G, C, N)
        centred, covariance = moments(grouped)
        matrices = _matrices(covariance, method, eps)  # (V, G, C, C)
        whitened = out_of_groups(matrices @ centred, order)  # (V, N, D)
        return whitened.reshape(z.shape)


@dataclass(eq=False, repr=False)
class SGW(StatefulComponent):
    """Whiten each view by itself, in its own shuffle: (P, N, D) -> (P·copies, N, D).

    BibTeX: zhuo2023whitenedcse. The paper's text has passes = 1 and copies = 3, its code passes =
    3. Hard negatives are whitened with the anchor view's mean and matrix, and change neither.

    Eq. 13 follows mean and covariance over the batches. In evaluation mode they whiten, and
    channels keep their order, so that a sentence has one result whatever its batch. In training
    they whiten where N <= C, and always with ``running``. True is Eq. 13 with the batch at hand,
    and its gradient; "before" is as printed, of the batches before it, without gradient. They start
    at the first batch's mean and mean variance. Evaluation before any training has none yet, and
    uses the batch's.

    Attributes:
        groups: k, their number; it divides D.
        method: zca, or pca, whose axes swap from batch to batch.
        shuffle: whether channels are shuffled before they are grouped, in training.
        copies: of each pass, to be whitened.
        normalize: divide rows by their norm first.
        running: whether the statistics of all batches whiten in training.
        momentum: β of Eq. 13, which does not state it.
        eps: is added to each variance.

    Raises:
        UserError: ``groups`` does not divide D, or the copies would all be equal.
    """

    stage = "views"
    groups: Count
    method: Method = "zca"
    shuffle: bool = True
    copies: Count = 1
    normalize: bool = False
    running: Literal[True, False, "before"] = False
    momentum: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.9
    eps: NonNegative = 0.0

    def begin(self, context: BuildContext) -> None:
        dim = context.needed("width")
        _check_groups("views.sgw.groups", self.groups, dim)
        shuffle_matters = self.shuffle and 1 < self.groups < dim
        if self.copies > 1 and not shuffle_matters:
            problem = f"views.sgw.copies = {self.copies} would all be equal"
            remedy = f"set shuffle = true and groups between 1 and {dim}"
            raise UserError(problem, remedy, code="equal-copies")
        self.statistics = Momentum(dim, self.momentum)

    def layers(self) -> list[nn.Module]:
        """What it does in evaluation mode, for a model that keeps it.

        That is one linear map, by the statistics so far.
        """
        statistics = self.statistics.so_far(self.statistics.mean)
        mean = statistics.mean
        order = torch.arange(len(mean), device=mean.device)
        _, covariance = blocks(statistics, order[None], self.groups)  # (1, G, C, C)

        matrices = self.whitening(covariance)[0]  # (G, C, C)
        matrix: Tensor = torch.block_diag(*matrices)  # type: ignore[no-untyped-call]  # (D, D)
        layer = dense(matrix, -matrix @ mean)
        if self.normalize:
            return [Normalize(), layer]
        return [layer]

    def forward(self, views: Views) -> Views:
        with torch.autocast(views.stack.device.type, enabled=False):
            stack = _precise(views.stack)
            negatives = _precise(views.negatives)
            if self.normalize:
                stack = F.normalize(stack, dim=-1)
                negatives = F.normalize(negatives, dim=-1)

            # Draw a shuffle for each copy of each pass.
            count = len(stack) * self.copies
            order = self._order(count, views.batch.generator)  # (V, D)
            order = order.to(stack.device, non_blocking=True)

            # Whiten the views.
            grouped = into_groups(stack, order, self.groups)  # (V, G, C, N)
            centred, covariance = self._centred(stack, grouped, order)
            matrices = self.whitening(covariance)  # (V, G, C, C)
            whitened = out_of_groups(matrices @ centred, order)

            # Hard negatives get the anchor view's mean and matrix.
            first_sentence = grouped[:1, ..., :1]  # (1, G, C, 1)
            mean = first_sentence - centred[:1, ..., :1]
            anchor_order = order[:1]  # (1, D)
            hard_rows = negatives.flatten(0, 1)[None]  # (1, N · H, D)
            grouped_hard = into_groups(hard_rows, anchor_order, self.groups)
            whitened_hard = matrices[:1] @ (grouped_hard - mean)
            hard_rows = out_of_groups(whitened_hard, anchor_order)

            hard = hard_rows.reshape(negatives.shape)
            return replace(views, stack=whitened, negatives=hard)

    def whitening(self, covariance: Tensor) -> Tensor:
        """Wᵀ of each group (V, G, C, C), of its covariance."""
        return _matrices(covariance, self.method, self.eps)

    def _order(self, count: int, generator: torch.Generator) -> Tensor:
        """A permutation of the channels for every view, from the batch's generator -> (V, D)."""
        dim = len(self.statistics.mean)
        is_shuffled = self.shuffle and self.training
        if not is_shuffled:
            return torch.arange(dim).expand(count, -1)
        noise = torch.rand(count, dim, generator=generator, dtype=torch.float64)
        return noise.argsort(-1)

    def _centred(
        self,
        stack: Tensor,  # (P, N, D)
        grouped: Tensor,  # (V, G, C, N): the same, in groups
        order: Tensor,  # (V, D)
    ) -> tuple[Tensor, Tensor]:
        """Features (V, G, C, N) without the mean, and covariance (V, G, C, C).

        The statistics are those of the batch, or of all batches so far. In training, they are
        updated with the stack.
        """
        size, count = grouped.shape[-2:]
        if self.training:
            _check_size(count, 1, "train with batches of two or more")
            before = self.running == "before"
            is_running = bool(self.running) or count <= size
            has_gradient = is_running and not before
            rows = stack.flatten(0, 1)  # all passes together
            if not has_gradient:
                rows = rows.detach()
            statistics = self.statistics(rows, before)
        else:
            is_running = bool(self.statistics.batches)
            statistics = self.statistics.so_far(grouped)

        if is_running:
            mean, covariance = blocks(statistics, order, self.groups)
            return grouped - mean, covariance
        _check_size(count, size, "train first, for statistics")
        return moments(grouped)


def _matrices(
    covariance: Tensor,  # Σ (V, G, C, C)
    method: Method,
    eps: float,
) -> Tensor:
    """Wᵀ (V, G, C, C) of Σ + eps·I."""
    channels = covariance.shape[-1]
    identity = torch.eye(channels, dtype=covariance.dtype, device=covariance.device)
    regularised = covariance + eps * identity
    return inverse_sqrt(regularised, method).mT


def _precise(z: Tensor) -> Tensor:
    """In float32, or in its own precision if that is better."""
    dtype = torch.promote_types(z.dtype, torch.float32)
    return z.to(dtype)


def _check_groups(key: str, groups: int, dim: int) -> None:
    if groups >= 1 and dim % groups == 0:
        return
    divisors = []
    for number in range(1, dim + 1):
        if dim % number == 0:
            divisors.append(str(number))
    problem = f"{key} = {groups} does not divide the {dim} channels"
    raise UserError(problem, f"choose one of {', '.join(divisors)}", code="impossible-groups")


def _check_size(count: int, size: int, remedy: str) -> None:
    """The covariance of C channels needs more than C sentences."""
    if count <= size:
        problem = f"a batch of {count} cannot whiten {size} channels a group"
        raise UserError(problem, remedy, code="small-batch")
