"""SG-OPT's inner layers, as views (Kim et al., ACL 2021, Sec. 3).
https://aclanthology.org/2021.acl-long.197
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from isotrope.contract.context import BuildContext, WithState
from isotrope.errors import UserError
from isotrope.types import Count


def spread(layers: int, count: int) -> list[int]:
    """``count`` of ``layers`` numbers from 0, as even as can be, the first and the last among them."""
    return (
        [round(number * (layers - 1) / max(1, count - 1)) for number in range(count)]
        if count > 1
        else [layers - 1]
    )


@dataclass(eq=False, repr=False)
class Layers(WithState):
    """Token ids (count · N, L) -> (count · N, D) without gradient: a frozen layer a pass. BibTeX:
    kim2021selfguided.

    Each is the mean over the tokens of one of ``count`` layers, spread from the embedding layer to
    the last; it must be ``on`` as many passes. The frozen model has no dropout and reads each
    sentence once.
    """

    stage = "peers"
    count: Count = 1

    def begin(self, context: BuildContext) -> None:
        self.encoder: Any = deepcopy(context.needed("student")).requires_grad_(False).eval()
        config = getattr(getattr(self.encoder[0], "auto_model", None), "config", None)
        there = getattr(config, "num_hidden_layers", 0) + 1  # with the embedding layer
        if config is None or self.count > there:
            problem = f"peers.layers.count = {self.count}, and the model has {there} layers with that of its embeddings"
            raise UserError(problem, f"choose at most {there}, and as many passes in on")
        config.output_hidden_states = True
        self.numbers = spread(there, self.count)

    def train(self, mode: bool = True) -> Self:
        """Never in training mode: it has no dropout."""
        return super().train(False)

    @torch.no_grad()
    def forward(self, features: dict[str, Any], size: int | None = None) -> Tensor:
        """``size`` sentences at a time; None: all."""
        ids = features["input_ids"]
        count, rest = divmod(len(ids), self.count)
        if rest or bool((ids != ids[:count].repeat(self.count, 1)).any()):
            problem = f"peers.layers: the passes in on are not {self.count} copies of one text"
            raise UserError(
                problem, f"name {self.count} passes in peers.layers.on, without token steps"
            )
        parts = []
        for start in range(0, count, size or count):
            rows = slice(start, min(start + (size or count), count))
            told = self.encoder[0](
                {k: v[rows] if isinstance(v, Tensor) else v for k, v in features.items()}
            )
            # The last of the inner states is before the final norm in some versions of
            # transformers.
            layers = [*told["all_layer_embeddings"][:-1], told["token_embeddings"]]
            mask = features["attention_mask"][rows, :, None]
            parts.append(
                torch.stack([(layers[n] * mask).sum(dim=1) / mask.sum(dim=1) for n in self.numbers])
            )
        return torch.cat(parts, dim=1).flatten(0, 1)
