"""Packed encoding: a batch is one row of its real tokens, so padding costs nothing in any linear layer.

N sentences of l_i tokens run through embeddings, linear layers, norms and MLP as (1, T, D), T = Σ l_i. Attention alone
sees (N, H, L, d) again. The output is padded as before. So poolings, saved models, and losses that patch the model's
forward need no change. The encoder gets another forward and another attention function. Its weights stay.
"""

from functools import partial, update_wrapper
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from isotrope.encoder.fast import mpnet
from isotrope.encoder.fast.attention import ATTENTION_NAME, Packing
from isotrope.encoder.fast.dropout import quicken

FROM_FIRST_COLUMN = {"bert", "electra", "distilbert", "modernbert"}  # model types, by where positions begin
BEHIND_PADDING_INDEX = {"roberta", "xlm-roberta", "camembert", "mpnet"}
PER_TOKEN = ("input_ids", "inputs_embeds", "token_type_ids", "position_ids")
ELSEWHERE = ("past_key_values", "encoder_hidden_states", "output_attentions")  # what asks for more than an encoder
MULTIPLE = 256  # of tokens, on a GPU: a few shapes for its allocator and its kernels
WIDTH, SHARE = 32, 16  # few shapes: lengths are multiples of the one, tokens of that part of the padded batch


def supports(config: PreTrainedConfig | None) -> bool:
    """Whether `pack` knows the architecture of a configuration; others go on padded, with the same numbers."""
    kind = getattr(config, "model_type", None)
    return kind in FROM_FIRST_COLUMN | BEHIND_PADDING_INDEX and not getattr(config, "is_decoder", False)


def pack(model: PreTrainedModel) -> None:
    """Make a transformers encoder compute real tokens alone, in place; one that is not supported stays as it is.

    ``model(input_ids (N, L), attention_mask (N, L), …)`` gives what it gave, to rounding, with zeros for padding.
    Dropout draws other masks from the same seed.
    """
    if not supports(getattr(model, "config", None)):
        return
    if model.config.model_type == "mpnet":
        mpnet.take_over(model)
    else:
        model.set_attn_implementation(ATTENTION_NAME)
    quicken(model)
    # sentence-transformers calls it by this name, past any hook; its signature stays readable.
    model.forward = update_wrapper(partial(forward, model), model.forward)


def forward(model: PreTrainedModel, *args: Any, few_shapes: bool = False, **kwargs: Any) -> Any:
    """``type(model).forward``, packed where there is an attention mask (N, L) and nothing but states is asked for.

    ``few_shapes``: most batches that differ in tokens alone have the same shape within.
    """
    mask = kwargs.get("attention_mask")
    asked = any(kwargs.get(key) is not None and kwargs[key] is not False for key in ELSEWHERE)
    if args or asked or not isinstance(mask, Tensor) or mask.ndim != 2 or not kwargs.get("return_dict", True):
        return type(model).forward(model, *args, **kwargs)
    inputs = {"position_ids": _positions(model, kwargs)} | {
        key: kwargs[key] for key in PER_TOKEN if kwargs.get(key) is not None
    }
    inputs = {key: value.expand(*mask.shape, *value.shape[2:]) for key, value in inputs.items()}
    length, multiple = mask.shape[1], MULTIPLE if mask.is_cuda else 1
    if few_shapes:
        mask, *wide = (_widen(x, -length % WIDTH) for x in (mask, *inputs.values()))
        inputs, multiple = dict(zip(inputs, wide, strict=True)), -(-mask.numel() // SHARE)
    packing = Packing.from_mask(mask, model.config.num_attention_heads, multiple)
    if mask.device.type == "cpu" and not few_shapes:
        packing = packing.split()
    packed = {key: packing.pack(value) for key, value in inputs.items()}
    # A mask of four dimensions goes to the attention as it is; the packing follows it down to every layer.
    with mpnet.passing(packing):
        output = type(model).forward(model, **kwargs | packed | {"attention_mask": packing.bias, "packing": packing})
    return _padded(model, output, packing, length)


def _widen(x: Tensor, columns: int) -> Tensor:
    """(N, L, …) -> (N, L + columns, …), zeros at the end."""
    return F.pad(x, (0, 0) * (x.ndim - 2) + (0, columns))


def _positions(model: PreTrainedModel, kwargs: dict[str, Any]) -> Tensor:
    """The position ids (N, L) or (1, L) that the model would give its padded input."""
    mask, ids = kwargs["attention_mask"], kwargs.get("input_ids")
    columns = torch.arange(mask.shape[1], device=mask.device)[None]
    if model.config.model_type in FROM_FIRST_COLUMN:
        return columns
    padding: int = model.embeddings.padding_idx
    if ids is None:
        return columns + padding + 1
    real: Tensor = (ids != padding).long()
    return real.cumsum(dim=1) * real + padding


def _padded(model: PreTrainedModel, output: Any, packing: Packing, length: int) -> Any:
    """Packed states (1, T, D) -> padded ones (N, length, D)."""
    output["last_hidden_state"] = packing.pad(output["last_hidden_state"])[:, :length]
    if output.get("hidden_states") is not None:
        output["hidden_states"] = tuple(packing.pad(layer)[:, :length] for layer in output["hidden_states"])
    if output.get("pooler_output") is not None:
        output["pooler_output"] = model.pooler(output["last_hidden_state"])
    return output
