"""What the encoder reads: the features of several passes, and token embeddings of which some dimensions are erased."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

KEEP = "feature_keep"  # (N, 1, d): what a sentence's token embeddings (L, d) are multiplied by


def whole(model: nn.Module, column: dict[str, Any]) -> dict[str, Tensor]:
    """Every feature kept, for token steps to change; nothing where the encoder takes no input embeddings."""
    if (table := _token_embeddings(_encoder(model))) is None:
        return {}
    return {KEEP: torch.ones(len(column["input_ids"]), 1, table.embedding_dim, device=column["input_ids"].device)}


def in_rows(column: dict[str, Any]) -> dict[str, Any]:
    """A text column as rows: token ids (N, L) with an attention mask.

    sentence-transformers' `StaticEmbedding` reads all texts as one line of ids (T,); ``offsets`` (N,) say where each
    text begins. Rows can be changed, stacked and split as those of every other encoder. `embed` makes a line of them.
    """
    if "offsets" not in column:
        return column
    ids, offsets = column["input_ids"], column["offsets"]
    lengths = torch.diff(offsets, append=offsets.new_tensor([len(ids)]))  # (N,)
    mask = torch.arange(int(lengths.max()), device=ids.device) < lengths[:, None]  # (N, L)
    rows = ids.new_zeros(mask.shape).masked_scatter(mask, ids)
    return column | {"input_ids": rows, "attention_mask": mask.long()}


def _in_a_line(features: dict[str, Any]) -> None:
    """The inverse of `in_rows`, in place: what the attention mask hides is left out."""
    mask = features.pop("attention_mask").bool()
    lengths = mask.sum(dim=1)
    features |= {"input_ids": features["input_ids"][mask], "offsets": lengths.cumsum(dim=0) - lengths}


def stacked(copies: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The features of several passes, (N, L_v), … each, stacked; padded with 0, which the attention mask hides."""
    return {
        key: _join([copy[key] for copy in copies]) if isinstance(value, Tensor) else value
        for key, value in copies[0].items()
    }


def _join(parts: Sequence[Tensor]) -> Tensor:
    width = max(part.shape[-1] for part in parts)
    return torch.cat([F.pad(part, (0, width - part.shape[-1])) for part in parts])


def embed(model: nn.Module, features: dict[str, Any]) -> Tensor:
    """The encoder's forward pass on token ids (N, L) -> (N, D), with erased features where there are some."""
    if "offsets" in features:
        _in_a_line(features)
    keep, encoder = features.pop(KEEP, None), _encoder(model)
    table = _token_embeddings(encoder)
    if keep is not None and table is not None:
        ids = features.pop("input_ids")
        padding = getattr(getattr(encoder, "embeddings", None), "padding_idx", None)
        if padding is not None:  # RoBERTa and its kin count positions from the ids, and would no longer see the padding
            real = (ids != padding).long()
            features["position_ids"] = real.cumsum(dim=1) * real + padding
        features["inputs_embeds"] = table(ids) * keep  # (N, L, d)
    return model(features)["sentence_embedding"]  # type: ignore[no-any-return]


def _encoder(model: nn.Module) -> nn.Module | None:
    """The first language model within; the wrapping of several processes or adapters does not hide it."""
    return next((module for module in model.modules() if isinstance(module, PreTrainedModel)), None)


def _token_embeddings(encoder: nn.Module | None) -> nn.Embedding | None:
    if not isinstance(encoder, PreTrainedModel) or "inputs_embeds" not in inspect.signature(encoder.forward).parameters:
        return None
    table = encoder.get_input_embeddings()
    return table if isinstance(table, nn.Embedding) else None
