"""What the encoder reads: several passes, erased parts of its embeddings, other positions; at once,
or in parts.
"""

import inspect
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from isotrope.errors import UserError

# Features that token steps may change besides token ids and mask.
KEEP = "feature_keep"  # (N, 1, d): the factor of a sentence's token embeddings (L, d)
# Factors of what the embedding layer gives (N, L, d), after positions, norm and dropout.
LAYER_TOKENS = "layer_tokens"  # (N, L)
LAYER_FEATURES = "layer_features"  # (N, 1, d)
POSITIONS = "position_ids"  # (N, L)

# A batch of texts as an encoder reads it: input_ids (N, L), attention_mask (N, L), …
TextColumn = dict[str, Any]

# What an encoder gives.
EMBEDDING = "sentence_embedding"  # (N, D)
STATES = "token_embeddings"  # (N, L, H): the states of its tokens


def step_features(
    model: nn.Module, column: TextColumn, names: Collection[str] = (KEEP,)
) -> dict[str, Tensor]:
    """The features of these names before any token step has changed them.

    Raises:
        UserError: the encoder does not take such a feature.
    """
    encoder = language_model(model)
    ids = column["input_ids"]
    features: dict[str, Tensor] = {}
    table = _token_embeddings(encoder)
    if table is not None:
        every_feature = torch.ones(len(ids), 1, table.embedding_dim, device=ids.device)
        features[KEEP] = every_feature
        if isinstance(getattr(encoder, "embeddings", None), nn.Module):
            features[LAYER_FEATURES] = every_feature
            features[LAYER_TOKENS] = torch.ones_like(ids, dtype=torch.float32)
    if encoder is not None and POSITIONS in inspect.signature(encoder.forward).parameters:
        features[POSITIONS] = positions(encoder, ids, ids)

    for name in sorted(names):
        if name not in features:
            raise UserError(
                f"a token step needs {name}, which this encoder does not take",
                "take another token step, such as tokens.shuffle or tokens.cutoff"
                " with unit = token",
                "missing-feature",
            )
    return {name: features[name] for name in names}


def in_rows(column: TextColumn) -> TextColumn:
    """A text column as rows: token ids (N, L) with an attention mask, which can be changed, stacked
    and split.

    sentence-transformers' `StaticEmbedding` reads all texts as one line of ids (T,); ``offsets``
    (N,) say where each text begins. `outputs` makes a line of rows again.
    """
    if "offsets" not in column:
        return column
    beginnings = column["offsets"][1:].cpu()
    texts = column["input_ids"].tensor_split(beginnings)
    real_tokens = [torch.ones_like(text) for text in texts]
    ids = pad_sequence(texts, batch_first=True)  # (N, L)
    mask = pad_sequence(real_tokens, batch_first=True)  # (N, L)
    return column | {"input_ids": ids, "attention_mask": mask}


def _in_a_line(features: TextColumn) -> TextColumn:
    """The opposite of `in_rows`. What the mask hides is left out."""
    mask = features["attention_mask"].bool()
    lengths = mask.sum(dim=1)
    line = dict(features)
    del line["attention_mask"]
    line["input_ids"] = features["input_ids"][mask]
    line["offsets"] = lengths.cumsum(dim=0) - lengths
    return line


def stacked(copies: Sequence[TextColumn]) -> TextColumn:
    """The features of several passes, (N, L_v), … each, stacked; padded with 0, which the attention
    mask hides.
    """
    features = dict(copies[0])
    for name, value in copies[0].items():
        if isinstance(value, Tensor):
            features[name] = _padded_rows([copy[name] for copy in copies])
    return features


def _padded_rows(passes: Sequence[Tensor]) -> Tensor:
    """(N, L_v) each -> (V · N, L) of the greatest length, padded with 0."""
    longest = max(rows.shape[-1] for rows in passes)
    padded = []
    for rows in passes:
        missing = longest - rows.shape[-1]
        padded.append(F.pad(rows, (0, missing)))
    return torch.cat(padded)


def outputs(
    model: nn.Module, features: TextColumn, names: Sequence[str] = (EMBEDDING,)
) -> tuple[Tensor, ...]:
    """The encoder's forward pass on token ids (N, L), with erased features where there are some ->
    its outputs of these names.
    """
    # A copy, because the encoder's modules write into it, and `read_in_parts` reads it again.
    features = _in_a_line(features) if "offsets" in features else dict(features)
    encoder = language_model(model)
    table = _token_embeddings(encoder)
    keep = features.pop(KEEP, None)
    if keep is not None and table is not None:
        ids = features.pop("input_ids")
        if _padding(encoder) is not None:  # without ids, it would no longer see the padding
            features.setdefault(POSITIONS, positions(encoder, ids, ids))
        features["inputs_embeds"] = table(ids) * keep  # (N, L, d)
    with _layer_erased(encoder, features):
        result = model(features)
    return tuple(result[name] for name in names)


def read_in_parts(
    model: nn.Module,
    features: TextColumn,
    size: int | None,
    names: Sequence[str] = (EMBEDDING,),
) -> tuple[Tensor, ...]:
    """`outputs`, ``size`` rows at a time, by gradient caching; None or N <= size: all at once.

    Gao et al., RepL4NLP 2021 (GradCache), https://arxiv.org/abs/2101.06983. Only these outputs of
    each part are kept, and backward encodes each part once more, with the random state and the
    precision that it had. This is torch's checkpoint with the whole encoder as its segment, so it
    works for every loss.
    """
    count = len(features["input_ids"])
    if size is None or count <= size:
        return outputs(model, features, names)
    if features["input_ids"].is_mps:
        raise UserError(
            f"mini_batch_size = {size} cannot repeat its dropout on an Apple GPU",
            "leave it out, or train on a CPU or a CUDA device",
            "no-dropout",
        )

    batches = []
    for start in range(0, count, size):
        # Weights cast by autocast would be shared by all parts, and their gradients be summed in
        # half precision.
        torch.clear_autocast_cache()
        end = start + size
        rows = dict(features)
        for name, value in features.items():
            if isinstance(value, Tensor):
                rows[name] = value[start:end]
        batches.append(checkpoint(outputs, model, rows, names, use_reentrant=False))
    return tuple(map(torch.cat, zip(*batches, strict=True)))


def _layer_erased(encoder: Any, features: TextColumn) -> AbstractContextManager[Any]:
    """While it lasts, the output of the encoder's embedding layer is multiplied by two features."""
    tokens = features.pop(LAYER_TOKENS, None)
    dimensions = features.pop(LAYER_FEATURES, None)
    if tokens is None and dimensions is None:
        return nullcontext()
    mask: Tensor = features["attention_mask"].bool()
    keep = mask.new_ones(*mask.shape, 1, dtype=torch.float32)
    if tokens is not None:
        keep = keep * tokens[..., None]
    if dimensions is not None:
        keep = keep * dimensions  # (N, L, 1 or d)

    def erase(states: Tensor) -> Tensor:
        factors = keep
        if states.shape[:2] != mask.shape:  # packed: real tokens one after another, then fillers
            real_tokens = keep[mask]  # (T, 1 or d)
            filler_count = states.shape[1] - len(real_tokens)
            factors = F.pad(real_tokens, (0, 0, 0, filler_count))[None]
        return states * factors.to(states)

    return embeddings_changed(encoder, erase)


def embeddings_changed(
    encoder: Any, change: Callable[[Tensor], Tensor]
) -> AbstractContextManager[Any]:
    """While it lasts, what the encoder's embedding layer gives is changed: (N, L, d), or (1, T, d)
    if it is packed.
    """
    hook: AbstractContextManager[Any] = encoder.embeddings.register_forward_hook(
        lambda _module, _inputs, states: change(states)
    )
    return hook


def _padding(encoder: Any) -> int | None:
    """The padding's id, from which RoBERTa and its kin count positions; None: positions are
    columns.
    """
    embedding_layer = getattr(encoder, "embeddings", None)
    return getattr(embedding_layer, "padding_idx", None)


def positions(encoder: Any, ids: Tensor | None, mask: Tensor) -> Tensor:
    """The positions (N, L) that the encoder gives to token ids (N, L), or, without them, to
    embeddings with a mask.
    """
    padding = _padding(encoder)
    if padding is not None and ids is not None:
        real = (ids != padding).long()
        return real.cumsum(dim=1) * real + padding
    columns = torch.arange(mask.shape[1], device=mask.device)
    if padding is not None:
        columns = columns + (padding + 1)
    return columns.repeat(len(mask), 1)


def language_model(model: nn.Module) -> nn.Module | None:
    """The first language model within a model; the wrapping of several processes or adapters does
    not hide it.
    """
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            encoder: nn.Module = module  # mypy may see Any here
            return encoder
    return None


def token_table(model: nn.Module) -> nn.Embedding:
    """The student's own token vectors (W, E), for a component that reads or writes words."""
    table = _token_embeddings(language_model(model))
    if table is None:
        raise UserError(
            "a term reads words, and the model has no table of them",
            "choose a transformer, such as BERT",
            "no-token-table",
        )
    return table


def _token_embeddings(encoder: nn.Module | None) -> nn.Embedding | None:
    if not isinstance(encoder, PreTrainedModel):
        return None
    if "inputs_embeds" not in inspect.signature(encoder.forward).parameters:
        return None
    table = encoder.get_input_embeddings()
    return table if isinstance(table, nn.Embedding) else None
