"""How token embeddings become one sentence embedding, built from sentence-transformers' own modules alone.

So every saved model loads in plain sentence-transformers, and its folder declares its pooling.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer, WeightedLayerPooling
from torch import nn

from isotrope.errors import UserError

try:  # sentence-transformers keeps its general modules apart
    from sentence_transformers.base.modules import Dense as Dense
except ImportError:  # pragma: no cover
    from sentence_transformers.models import Dense as Dense

# name -> the hidden states that are averaged, of layers 0 (embeddings) … L; None: the last alone
LAYERS: dict[str, Callable[[int], list[int]] | None] = {
    "cls": None,  # the first token
    "mean": None,  # the mean over real tokens
    "first_last": lambda last: [0, last],  # embeddings + last layer: SimCSE's published "first-last avg" (56.70)
    "first_layer_last": lambda last: [1, last],  # first transformer layer + last (60.73)
    "last_two": lambda last: [last - 1, last],  # ConSERT
    "cls_head": None,  # the first token through the checkpoint's own pooler: Linear + Tanh
}


def pooling_modules(transformer: Transformer, pooling: str) -> list[nn.Module]:
    """The modules that follow ``transformer`` for a pooling's name: ``cls``, ``mean``, ``first_last``, … -> (N, D).

    Raises:
        UserError: the name is unknown, or ``cls_head`` is asked of a checkpoint without a pooler.
    """
    if pooling not in LAYERS:
        raise UserError(f"pooling = {pooling!r} is unknown", f"choose one of {', '.join(LAYERS)}")
    dim = transformer.get_embedding_dimension()
    config = transformer.auto_model.config
    layers = LAYERS[pooling]
    config.output_hidden_states = layers is not None
    if layers is not None:
        last = config.num_hidden_layers
        weights = torch.zeros(last + 1)
        weights[layers(last)] = 1.0
        average = WeightedLayerPooling(dim, num_hidden_layers=last, layer_start=0)
        average.layer_weights = nn.Parameter(weights)
        freeze(average)
        return [average, Pooling(dim, pooling_mode="mean")]
    if pooling == "cls_head":
        return [Pooling(dim, pooling_mode="cls"), _pretrained_head(transformer, dim)]
    return [Pooling(dim, pooling_mode=pooling)]


def freeze(model: nn.Module) -> None:
    """Keep the weights of layers out of training, as a pooling's name promises; a saved model forgets that they are."""
    for module in model.modules():
        if isinstance(module, WeightedLayerPooling):
            module.layer_weights.requires_grad_(False)


def _pretrained_head(transformer: Transformer, dim: int) -> Dense:
    pooler = getattr(getattr(transformer.auto_model, "pooler", None), "dense", None)
    if pooler is None:
        raise UserError(
            "pooling = 'cls_head' needs a checkpoint with a pooler, and this one has none", "use pooling = 'cls'"
        )
    head = Dense(dim, dim, activation_function=nn.Tanh())
    head.linear.load_state_dict(pooler.state_dict())
    return head
