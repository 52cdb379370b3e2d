"""SG-OPT's inner layers, as views (Kim et al., ACL 2021, Sec. 3).
https://aclanthology.org/2021.acl-long.197
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from isotrope.contract.context import BuildContext, StatefulComponent
from isotrope.contract.features import TextColumn
from isotrope.errors import UserError
from isotrope.types import Count


def spread(layers: int, count: int) -> list[int]:
    """``count`` numbers below ``layers``, evenly spread, with the first and the last."""
    last = layers - 1
    if count == 1:
        return [last]
    numbers = []
    for position in range(count):
        number = position * last / (count - 1)
        numbers.append(round(number))
    return numbers


@dataclass(eq=False, repr=False)
class Layers(StatefulComponent):
    """Token ids (count · N, L) -> (count · N, D) without gradient: a frozen layer a pass. BibTeX:
    kim2021selfguided.

    Each is the mean over the tokens of one of ``count`` layers, spread from the embedding layer to
    the last; it must be ``on`` as many passes. The frozen model has no dropout and reads each
    sentence once.
    """

    stage = "peers"
    count: Count = 1

    def begin(self, context: BuildContext) -> None:
        student = context.needed("student")
        self.encoder: Any = deepcopy(student).requires_grad_(False).eval()
        model = getattr(self.encoder[0], "auto_model", None)
        config = getattr(model, "config", None)
        layer_count = getattr(config, "num_hidden_layers", 0) + 1  # with the embedding layer
        if config is None or self.count > layer_count:
            problem = (
                f"peers.layers.count = {self.count}, and the model has {layer_count} layers with"
                " that of its embeddings"
            )
            remedy = f"choose at most {layer_count}, and as many passes in on"
            raise UserError(problem, remedy, code="too-many-layers")
        config.output_hidden_states = True
        self.numbers = spread(layer_count, self.count)

    def train(self, mode: bool = True) -> Self:
        """Never in training mode: it has no dropout."""
        return super().train(False)

    @torch.no_grad()
    def forward(self, features: TextColumn, size: int | None = None) -> Tensor:
        """``size`` sentences at a time; None: all."""
        ids = features["input_ids"]
        count, remainder = divmod(len(ids), self.count)
        copies = ids[:count].repeat(self.count, 1)
        if remainder or not torch.equal(ids, copies):
            problem = f"peers.layers: the passes in on are not {self.count} copies of one text"
            remedy = f"name {self.count} passes in peers.layers.on, without token steps"
            raise UserError(problem, remedy, code="not-copies")
        size = size or count
        batches = []
        for start in range(0, count, size):
            end = min(start + size, count)
            means = self._layer_means(features, start, end)
            batches.append(means)
        return torch.cat(batches, dim=1).flatten(0, 1)

    def _layer_means(self, features: TextColumn, start: int, end: int) -> Tensor:
        """The mean over the tokens of each layer, of some rows: (count, end - start, D)."""
        rows = dict(features)
        for name, value in features.items():
            if isinstance(value, Tensor):
                rows[name] = value[start:end]
        result = self.encoder[0](rows)
        # The last of the inner states is before the final norm in some versions of transformers.
        layers = [*result["all_layer_embeddings"][:-1], result["token_embeddings"]]

        mask: Tensor = rows["attention_mask"].unsqueeze(-1)  # (n, L, 1)
        lengths = mask.sum(dim=1)  # (n, 1)
        means = []
        for number in self.numbers:
            total = (layers[number] * mask).sum(dim=1)  # (n, D)
            means.append(total / lengths)
        return torch.stack(means)
