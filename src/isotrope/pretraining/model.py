"""The encoder and its masked-language head, with the embeddings that training begins from."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import ModernBertConfig, ModernBertForMaskedLM

from isotrope.pretraining.recipe import Recipe
from isotrope.pretraining.tokenizer import SPECIAL
from isotrope.pretraining.vectors import Array


def build_model(recipe: Recipe, tokenizer: Any, seed: int, attention: str = "sdpa") -> Any:
    """A fresh encoder with a head that computes logits at the predicted places alone.

    attention: transformers' name of its implementation. On a CPU the plain "eager" one costs a third of "sdpa" at these
    lengths when it is compiled (measured in bf16, whole steps: 10,200 against 6,000 tokens a second and core).
    """
    torch.manual_seed(seed)
    ids = {name: tokenizer.convert_tokens_to_ids(token) for name, token in SPECIAL.items()}
    config = ModernBertConfig(
        **recipe.model_config(ids, len(tokenizer)), sparse_prediction=True, attn_implementation=attention
    )
    return ModernBertForMaskedLM(config)


def begin_from(model: Any, embeddings: Array | None, counts: np.ndarray[Any, np.dtype[np.int64]]) -> None:
    """Put token embeddings (V, D) in place, and each token's log frequency, from counts (V,), as the decoder's bias.

    The bias spares the first steps the learning of how frequent each token is.
    """
    with torch.no_grad():
        if embeddings is not None:
            model.model.embeddings.tok_embeddings.weight.copy_(torch.from_numpy(embeddings))
        share = (counts + 1) / (counts + 1).sum()
        model.decoder.bias.copy_(torch.from_numpy(np.log(share)))
