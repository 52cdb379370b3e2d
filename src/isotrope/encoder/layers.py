"""A student with some of its teacher's layers; embeddings, final norm, pooling and all behind it are kept.

Every second layer is what DistilBERT begins with: Sanh et al., 2019, https://arxiv.org/abs/1910.01108, Sec. 3. Which
layers are best to keep: Sajjad et al., 2023, https://arxiv.org/abs/2004.03844.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer, WeightedLayerPooling
from torch import nn

from isotrope.encoder.adapters import has_adapter, merge_adapter
from isotrope.encoder.fast.packed import pack
from isotrope.errors import UserError

PLACES = ("spread", "first", "last")
_OTHER = "choose another student, such as tiny or static"


def chosen_layers(total: int, count: int, place: str = "spread") -> list[int]:
    """Which of ``total`` layers are kept. Spread: evenly, the first and the last among them; of one, the first."""
    if place == "spread":
        return [int(layer) for layer in np.linspace(0, total - 1, count).round()]
    return list(range(count)) if place == "first" else list(range(total - count, total))


def keep_layers(model: SentenceTransformer, count: int, place: str = "spread") -> SentenceTransformer:
    """The given model, which from now on has ``count`` of its layers.

    Its language model is built anew from a changed configuration, so it is the same after saving and loading.

    Raises:
        UserError: there are fewer layers; the architecture has no plain list of layers, or cannot do without those that
            go; the pooling averages layers.
    """
    if not isinstance(model[0], Transformer):
        raise UserError(f"layers:{count}: a {type(model[0]).__name__} has no layers", "choose static, tiny or a folder")
    if any(isinstance(module, WeightedLayerPooling) for module in model):
        raise UserError(f"layers:{count}: the model's pooling averages its layers", "choose the pooling mean or cls")
    if has_adapter(model):
        merge_adapter(model)
    whole = model[0].auto_model
    kind, total = whole.config.model_type, whole.config.num_hidden_layers
    if not 1 <= count <= total:
        raise UserError(f"layers:{count}: the model has {total} layers", f"choose 1 to {total}")
    stacks = [name for name, m in whole.named_modules() if isinstance(m, nn.ModuleList) and len(m) == total]
    if len(stacks) != 1:
        raise UserError(f"layers:{count}: {kind} has no plain list of {total} layers", _OTHER)
    kept = chosen_layers(total, count, place)
    config = deepcopy(whole.config)
    config.num_hidden_layers = count
    if kinds := getattr(config, "layer_types", None):  # ModernBERT: which layers see far
        config.layer_types = [kinds[layer] for layer in kept]
    new_name = {f"{stacks[0]}.{old}.": f"{stacks[0]}.{new}." for new, old in enumerate(kept)}
    weights = {}
    for name, value in whole.state_dict().items():
        layer = next((old for old in new_name if name.startswith(old)), "")
        if layer or not name.startswith(f"{stacks[0]}."):
            weights[new_name.get(layer, "") + name.removeprefix(layer)] = value
    smaller = type(whole)(config).to(device=whole.device, dtype=whole.dtype).train(whole.training)
    try:
        smaller.load_state_dict(weights)
    except RuntimeError as error:  # the first layer is unlike the others (ModernBERT, T5), or they share weights
        problem = f"layers:{count}: a {kind} cannot have the layers {', '.join(map(str, kept))} alone"
        raise UserError(problem, "choose the first layers (:first), or another student") from error
    pack(smaller)
    model[0].model = smaller
    return model
