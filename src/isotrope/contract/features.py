"""What the encoder reads: several passes, erased parts of its embeddings, other positions; at once,
or in parts.
"""

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from isotrope.errors import UserError

KEEP = "feature_keep"  # (N, 1, d): what a sentence's token embeddings (L, d) are multiplied by
# What the embedding layer gives (N, L, d), behind positions, norm and dropout, is multiplied by
# these two:
LAYER_TOKENS, LAYER_FEATURES = "layer_tokens", "layer_features"  # (N, L), (N, 1, d)
POSITIONS = "position_ids"  # (N, L)
# What an encoder gives: (N, D), and the states of its tokens (N, L, H).
EMBEDDING, STATES = "sentence_embedding", "token_embeddings"


def whole(
    model: nn.Module, column: dict[str, Any], needs: Collection[str] = (KEEP,)
) -> dict[str, Tensor]:
    """What token steps change besides token ids and mask, as it is without them; ``needs``: its
    names.
    """
    ids, encoder = column["input_ids"], language_model(model)
    found: dict[str, Tensor] = {}
    if (table := _token_embeddings(encoder)) is not None:
        found[KEEP] = torch.ones(len(ids), 1, table.embedding_dim, device=ids.device)
        if isinstance(getattr(encoder, "embeddings", None), nn.Module):
            found |= {
                LAYER_FEATURES: found[KEEP],
                LAYER_TOKENS: torch.ones_like(ids, dtype=torch.float32),
            }
    if encoder is not None and POSITIONS in inspect.signature(encoder.forward).parameters:
        found[POSITIONS] = positions(encoder, ids, ids)
    if missing := sorted(set(needs) - found.keys()):
        remedy = (
            "take another token step, such as tokens.shuffle or tokens.cutoff with unit = token"
        )
        raise UserError(
            f"a token step needs {missing[0]}, which this encoder does not take", remedy
        )
    return {name: found[name] for name in needs}


def in_rows(column: dict[str, Any]) -> dict[str, Any]:
    """A text column as rows: token ids (N, L) with an attention mask, which can be changed, stacked
    and split.

    sentence-transformers' `StaticEmbedding` reads all texts as one line of ids (T,); ``offsets``
    (N,) say where each text begins. `outputs` makes a line of rows again.
    """
    if "offsets" not in column:
        return column
    texts = column["input_ids"].tensor_split(column["offsets"][1:].cpu())
    mask = pad_sequence([torch.ones_like(ids) for ids in texts], batch_first=True)  # (N, L)
    return column | {"input_ids": pad_sequence(texts, batch_first=True), "attention_mask": mask}


def stacked(copies: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The features of several passes, (N, L_v), … each, stacked; padded with 0, which the attention
    mask hides.
    """
    found = dict(copies[0])
    for key in (key for key, value in found.items() if isinstance(value, Tensor)):
        parts = [copy[key] for copy in copies]
        width = max(part.shape[-1] for part in parts)
        found[key] = torch.cat([F.pad(part, (0, width - part.shape[-1])) for part in parts])
    return found


def outputs(
    model: nn.Module, features: dict[str, Any], wanted: Sequence[str] = (EMBEDDING,)
) -> tuple[Tensor, ...]:
    """The encoder's forward pass on token ids (N, L), with erased features where there are some:
    what is ``wanted``.
    """
    # the encoder's modules write into it, and `read_in_parts` reads it again
    features = dict(features)
    if "offsets" in features:  # what the mask hides is left out
        mask = features.pop("attention_mask").bool()
        lengths = mask.sum(dim=1)
        features |= {
            "input_ids": features["input_ids"][mask],
            "offsets": lengths.cumsum(dim=0) - lengths,
        }
    keep, encoder = features.pop(KEEP, None), language_model(model)
    table = _token_embeddings(encoder)
    if keep is not None and table is not None:
        ids = features.pop("input_ids")
        # these count positions from the ids, and would no longer see the padding
        if _padding(encoder) is not None:
            features.setdefault(POSITIONS, positions(encoder, ids, ids))
        features["inputs_embeds"] = table(ids) * keep  # (N, L, d)
    with _layer_erased(encoder, features):
        given = model(features)
    return tuple(given[name] for name in wanted)


def read_in_parts(
    model: nn.Module,
    features: dict[str, Any],
    size: int | None,
    wanted: Sequence[str] = (EMBEDDING,),
) -> tuple[Tensor, ...]:
    """`outputs`, ``size`` rows at a time, by gradient caching; None or N <= size: all at once.

    Gao et al., RepL4NLP 2021 (GradCache), https://arxiv.org/abs/2101.06983. Only what is wanted of
    each part is kept, and backward encodes each part once more, with the random state and the
    precision that it had. This is torch's checkpoint with the whole encoder as its segment, so it
    works for every loss.
    """
    count = len(features["input_ids"])
    if size is None or count <= size:
        return outputs(model, features, wanted)
    if features["input_ids"].is_mps:
        remedy = "leave it out, or train on a CPU or a CUDA device"
        raise UserError(
            f"mini_batch_size = {size} cannot repeat its dropout on an Apple GPU", remedy
        )
    parts = []
    for start in range(0, count, size):
        # Weights cast by autocast would be shared by all parts, and their gradients be summed in
        # half precision.
        torch.clear_autocast_cache()
        part = {
            key: value[start : start + size]
            for key, value in features.items()
            if isinstance(value, Tensor)
        }
        parts.append(checkpoint(outputs, model, features | part, wanted, use_reentrant=False))
    return tuple(torch.cat(each) for each in zip(*parts, strict=True))


def _layer_erased(encoder: Any, features: dict[str, Any]) -> AbstractContextManager[None]:
    """While it lasts, the output of the encoder's embedding layer is multiplied by two features."""
    tokens, dimensions = features.pop(LAYER_TOKENS, None), features.pop(LAYER_FEATURES, None)
    if tokens is None and dimensions is None:
        return nullcontext()
    mask: Tensor = features["attention_mask"].bool()
    keep: Tensor = (
        mask.new_ones(*mask.shape, 1, dtype=torch.float32) if tokens is None else tokens[..., None]
    )
    keep = keep if dimensions is None else keep * dimensions  # (N, L, 1 or d)

    def erase(states: Tensor) -> Tensor:
        rows = keep
        if states.shape[:2] != mask.shape:  # packed: real tokens one behind another, then fillers
            rows = F.pad(keep[mask], (0, 0, 0, states.shape[1] - int(mask.sum())))[None]
        return states * rows.to(states)

    return embeddings_changed(encoder, erase)


@contextmanager
def embeddings_changed(encoder: Any, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """While it lasts, what the encoder's embedding layer gives is changed: (N, L, d), or (1, T, d)
    if it is packed.
    """
    hook = encoder.embeddings.register_forward_hook(lambda _module, _inputs, states: change(states))
    try:
        yield
    finally:
        hook.remove()


def _padding(encoder: Any) -> int | None:
    """The padding's id, from which RoBERTa and its kin count positions; None: positions are
    columns.
    """
    return getattr(getattr(encoder, "embeddings", None), "padding_idx", None)


def positions(encoder: Any, ids: Tensor | None, mask: Tensor) -> Tensor:
    """The positions (N, L) that the encoder gives to token ids (N, L), or, without them, to
    embeddings with a mask.
    """
    padding = _padding(encoder)
    if padding is None or ids is None:
        columns = torch.arange(mask.shape[1], device=mask.device) + (
            0 if padding is None else padding + 1
        )
        return columns.repeat(len(mask), 1)
    real = (ids != padding).long()
    return real.cumsum(dim=1) * real + padding


def language_model(model: nn.Module) -> nn.Module | None:
    """The first language model within a model; the wrapping of several processes or adapters does
    not hide it.
    """
    return next((module for module in model.modules() if isinstance(module, PreTrainedModel)), None)


def token_table(model: nn.Module) -> nn.Embedding:
    """The student's own vectors of its tokens (W, E), for a component that reads or writes words."""
    if (table := _token_embeddings(language_model(model))) is None:
        raise UserError(
            "a term reads words, and the model has no table of them",
            "choose a transformer, such as BERT",
        )
    return table


def _token_embeddings(encoder: nn.Module | None) -> nn.Embedding | None:
    if (
        not isinstance(encoder, PreTrainedModel)
        or "inputs_embeds" not in inspect.signature(encoder.forward).parameters
    ):
        return None
    table = encoder.get_input_embeddings()
    return table if isinstance(table, nn.Embedding) else None
