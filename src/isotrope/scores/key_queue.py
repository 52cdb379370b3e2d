"""A queue of keys: earlier embeddings are negatives (ESimCSE, MoCoSE).
https://aclanthology.org/2022.coling-1.342
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from isotrope.contract.context import BuildContext, StatefulComponent
from isotrope.types import Count, Scores


def pushed(
    queue: Tensor,  # (K, D)
    keys: Tensor,  # (N, D)
    size: int,
) -> Tensor:
    """The last ``size`` rows of queue and keys -> (min(K + N, size), D)."""
    rows = torch.cat([queue, keys.to(queue)])
    return rows[-size:]


@dataclass(eq=False, repr=False)
class KeyQueue(StatefulComponent):
    """The last ``size`` keys join every anchor's denominator. BibTeX: wu2022esimcse.

    The queue begins empty. A batch's keys, which the view ``keys`` gives, join it after the
    optimizer's step, so no batch meets its own. With several processes, the keys are those of all
    of them.
    """

    stage = "scores"
    size: Count = 256
    keys: Count = 1

    def begin(self, context: BuildContext) -> None:
        width = context.needed("width")
        self.rows: Tensor = nn.Buffer(torch.zeros(self.size, width))
        # so many are keys: rows have one shape in all checkpoints
        self.filled: Tensor = nn.Buffer(torch.tensor(0))
        # of the batches since the last step
        self.waiting: Tensor = nn.Buffer(torch.zeros(0, width), persistent=False)

    def forward(self, scores: Scores) -> Scores:
        (keys,) = scores.views.named([self.keys], "scores.key_queue.keys")  # (N, D)
        if self.training:
            self.waiting = pushed(self.waiting, keys.detach(), self.size)
        queue = self.queue().clone()  # backward reads it after the queue has moved
        return scores.with_extra(queue)

    def queue(self) -> Tensor:
        """The keys so far (K, D), the newest last."""
        count = int(self.filled)
        return self.rows[:count]

    def after_step(self, objective: Any) -> None:
        rows = pushed(self.queue(), self.waiting, self.size)
        self.rows[: len(rows)] = rows
        self.filled.fill_(len(rows))
        self.waiting = self.waiting[:0]
