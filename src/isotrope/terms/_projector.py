"""Terms behind SG-OPT's projector, and how far the student has moved from its start (Kim et al., ACL 2021, Sec. 3)."""

from __future__ import annotations

from typing import Self

import torch.distributed as dist
from torch import Tensor, nn

from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.types import AboveZero, Count, NonNegative, Scores


def projector(width: int, size: int) -> nn.Sequential:
    """D → ``size`` → ``size``, with GELU behind both; thrown away after training. It begins as BERT's new layers do."""
    layers = [nn.Linear(width, size), nn.Linear(size, size)]
    for layer in layers:
        nn.init.normal_(layer.weight, std=0.02)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.GELU(), layers[1], nn.GELU())


class Drift(nn.Module):
    """``weight`` · ‖θ − θ₀‖² over all weights of the student that are trained. Without a student, 0.

    Raises:
        UserError: there are several processes. Their gradients are averaged as each weight's first one is ready.
    """

    def __init__(self, context: BuildContext, weight: float) -> None:
        super().__init__()
        self.weight = weight
        if weight and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            problem = f"drift = {weight} reads the weights themselves, which {dist.get_world_size()} processes cannot"
            raise UserError(problem, "run one process, or set drift = 0")
        trained = [] if context.student is None else [w for w in context.student.parameters() if w.requires_grad]
        self._now = trained  # a plain list: they are the student's, and are saved with it
        for number, each in enumerate(trained):
            self.register_buffer(f"start{number}", each.detach().clone(), persistent=False)

    def forward(self) -> Tensor | float:
        """()."""
        moved = [(now - start).square().sum() for now, start in zip(self._now, self.buffers(), strict=True)]
        return self.weight * sum(moved, start=0.0) if self.weight else 0.0


def freeze_embeddings(context: BuildContext) -> None:
    """Keep the embedding layer of the student out of training."""
    for module in () if context.student is None else context.student.modules():
        if isinstance(embeddings := getattr(module, "embeddings", None), nn.Module):
            embeddings.requires_grad_(False)


class Projected(nn.Module):
    """`contrast` of the projected views, and ``drift`` · ‖θ − θ₀‖²; the embedding layer is not trained.

    Args:
        size: the projector's width.
    """

    projector: nn.Sequential
    moved: Drift

    def __init__(
        self, size: Count, temperature: AboveZero = 0.01, drift: NonNegative = 0.1, weight: NonNegative = 1.0
    ) -> None:
        super().__init__()
        self.size, self.temperature, self.drift, self.weight = size, temperature, drift, weight

    def build(self, context: BuildContext) -> Self:
        """With a projector for the student's width."""
        made = type(self)(self.size, self.temperature, self.drift, self.weight)
        made.projector = projector(context.needed("width"), self.size)
        freeze_embeddings(context)
        made.moved = Drift(context, self.drift)
        return made

    def forward(self, scores: Scores) -> Tensor:
        stack = self.projector(scores.views.stack.to(next(self.projector.parameters())))  # (V, N, F)
        return self.weight * (self.contrast(stack) + self.moved())  # type: ignore[no-any-return]

    def contrast(self, stack: Tensor) -> Tensor:
        """Projected views (V, N, F) -> ()."""
        raise NotImplementedError
