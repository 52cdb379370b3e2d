"""Features of the input: some dimensions of a sentence's token embeddings, erased before the encoder reads them.

A hook on the embedding table does it, so that token ids, and the positions that RoBERTa and MPNet count from them, stay
as they are. Nothing is left in the model afterwards.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

KEEP = "feature_keep"  # (N, 1, d): what a sentence's token embeddings (L, d) are multiplied by


def whole(model: nn.Module, column: dict[str, Any]) -> dict[str, Tensor]:
    """Every feature kept, for token steps to change; nothing where the encoder has no table of token embeddings."""
    table = _token_embeddings(model)
    if table is None:
        return {}
    return {KEEP: torch.ones(len(column["input_ids"]), 1, table.embedding_dim, device=column["input_ids"].device)}


def embed(model: nn.Module, features: dict[str, Any]) -> Tensor:
    """The encoder's forward pass on token ids (N, L) -> (N, D), with erased features where there are some."""
    keep: Tensor | None = features.pop(KEEP, None)
    table = _token_embeddings(model)
    if keep is None or table is None:
        return model(features)["sentence_embedding"]  # type: ignore[no-any-return]
    hook = table.register_forward_hook(lambda module, inputs, output: output * keep.to(output))  # (N, L, d)
    try:
        return model(features)["sentence_embedding"]  # type: ignore[no-any-return]
    finally:
        hook.remove()


def _token_embeddings(model: nn.Module) -> nn.Embedding | None:
    """Of the first language model within; the wrapping of several processes or adapters does not hide it."""
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            table = module.get_input_embeddings()
            return table if isinstance(table, nn.Embedding) else None
    return None
