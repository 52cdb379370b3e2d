"""Packed encoding: a batch is one row of its real tokens, so padding costs nothing in any linear
layer.

N sentences of l_i tokens run through embeddings, linear layers, norms and MLP as (1, T, D), T = Σ
l_i. Attention alone sees (N, H, L, d) again, and the output is padded as before. So poolings, saved
models, and losses that patch the model's forward need no change. On a GPU, layers can be compiled
too: small batches wait for launches of small kernels.
"""

import os
import shutil
from contextvars import ContextVar
from functools import partial, update_wrapper
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder, MPNetSelfAttention

from isotrope.contract.features import language_model, positions
from isotrope.encoder.fast.attention import ATTENTION_NAME, Dropout, Packing, attend
from isotrope.errors import UserError

# model types, by where positions begin
FROM_FIRST_COLUMN = {"bert", "electra", "distilbert", "modernbert"}
BEHIND_PADDING_INDEX = {"roberta", "xlm-roberta", "camembert", "mpnet"}
PER_TOKEN = ("input_ids", "inputs_embeds", "token_type_ids", "position_ids")
# what asks for more than an encoder
ELSEWHERE = ("past_key_values", "encoder_hidden_states", "output_attentions")
MULTIPLE = 256  # of tokens, on a GPU: a few shapes for its allocator and its kernels
# few shapes: lengths are multiples of the one, tokens of that part of the padded batch
WIDTH, SHARE = 32, 16
COMPILERS = ("g++", "clang++", "c++", "cl")
SHAPES = 64  # that are compiled; torch's own limit of 8 would have it compute further ones eagerly


def supports(config: PreTrainedConfig | None) -> bool:
    """Whether `pack` knows the architecture of a configuration; others go on padded, with the same
    numbers.
    """
    kind = getattr(config, "model_type", None)
    return kind in FROM_FIRST_COLUMN | BEHIND_PADDING_INDEX and not getattr(
        config, "is_decoder", False
    )


def pack(model: PreTrainedModel) -> None:
    """Make a transformers encoder compute real tokens alone, in place; one that is not supported
    stays as it is.

    ``model(input_ids (N, L), attention_mask (N, L), …)`` gives what it gave, to rounding, with
    zeros for padding. Dropout draws other masks from the same seed.
    """
    if not supports(getattr(model, "config", None)):
        return
    if model.config.model_type != "mpnet":  # whose attention is its own
        model.set_attn_implementation(ATTENTION_NAME)
    for module in model.modules():
        module.__class__ = FASTER.get(type(module), type(module))
    # sentence-transformers calls it by this name, past any hook; its signature stays readable.
    model.forward = update_wrapper(partial(forward, model), model.forward)


def forward(
    model: PreTrainedModel, *args: Any, width: int = 1, multiple: int | None = 1, **kwargs: Any
) -> Any:
    """``type(model).forward``, packed where there is an attention mask (N, L) and nothing but
    states is asked for.

    Within, lengths are multiples of ``width``, and numbers of tokens of ``multiple``: so there are
    few shapes. None: of a `SHARE`-th of the padded batch.
    """
    mask = kwargs.get("attention_mask")
    asked = any(kwargs.get(key) is not None and kwargs[key] is not False for key in ELSEWHERE)
    if (
        args
        or asked
        or not isinstance(mask, Tensor)
        or mask.ndim != 2
        or not kwargs.get("return_dict", True)
    ):
        return type(model).forward(model, *args, **kwargs)
    inputs = {key: kwargs[key] for key in PER_TOKEN if kwargs.get(key) is not None}
    inputs.setdefault("position_ids", positions(model, kwargs.get("input_ids"), mask))
    inputs = {key: value.expand(*mask.shape, *value.shape[2:]) for key, value in inputs.items()}
    length = mask.shape[1]
    if -length % width:
        # (N, L, …) -> (N, L + columns, …), zeros at the end
        mask, *wide = (
            F.pad(x, (0, 0) * (x.ndim - 2) + (0, -length % width)) for x in (mask, *inputs.values())
        )
        inputs = dict(zip(inputs, wide, strict=True))
    if multiple is None:
        multiple = -(-mask.numel() // SHARE)
    elif mask.is_cuda:
        multiple = MULTIPLE
    packing = Packing.from_mask(mask, model.config.num_attention_heads, multiple)
    packed = {key: packing.pack(value) for key, value in inputs.items()}
    token = _packing.set(packing)
    # a mask of four dimensions goes to the attention as it is; the packing follows it down to every
    # layer
    try:
        output = type(model).forward(
            model, **kwargs | packed | {"attention_mask": packing.bias, "packing": packing}
        )
    finally:
        _packing.reset(token)
    output["last_hidden_state"] = packing.pad(output["last_hidden_state"])[:, :length]
    if output.get("hidden_states") is not None:
        output["hidden_states"] = tuple(
            packing.pad(layer)[:, :length] for layer in output["hidden_states"]
        )
    if output.get("pooler_output") is not None:
        output["pooler_output"] = model.pooler(output["last_hidden_state"])
    return output


# Of the forward pass under way: MPNet hands nothing of ours down to its encoder.
_packing: ContextVar[Packing | None] = ContextVar("_packing", default=None)


class _Places(NamedTuple):
    """What the encoder hands to its layers instead of the relative positions' bias."""

    packing: Packing
    bias: Tensor  # (1, H, L, L), of one sentence


class _Encoder(MPNetEncoder):
    def compute_position_bias(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor | _Places:
        """(1, T, D) -> the relative positions' bias of one sentence, with the packing where there
        is one.
        """
        packing = _packing.get()
        if packing is None:
            return super().compute_position_bias(x, *args, **kwargs)  # type: ignore[no-any-return]
        x = x.new_empty(1, packing.bias.shape[-1], 0)
        return _Places(packing, super().compute_position_bias(x, *args, **kwargs))


class _SelfAttention(MPNetSelfAttention):
    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor,
        position_bias: Tensor | _Places,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[Tensor, ...]:
        """(1, T, D) -> (1, T, D); the mask is the packing's bias."""
        if not isinstance(position_bias, _Places):
            return super().forward(hidden_states, attention_mask, position_bias, *args, **kwargs)  # type: ignore[no-any-return]
        packing, bias = position_bias
        shape = (1, -1, self.num_attention_heads, self.attention_head_size)
        q, k, v = (
            part(hidden_states).view(shape).transpose(1, 2) for part in (self.q, self.k, self.v)
        )
        dropout = self.dropout.p if self.training else 0.0
        found = attend(q, k, v, packing, attention_mask + bias, dropout, None)
        return (self.o(found.flatten(2)),)


# with the same weights
FASTER = {nn.Dropout: Dropout, MPNetEncoder: _Encoder, MPNetSelfAttention: _SelfAttention}


def compile_layers(model: nn.Module) -> None:
    """Compile each layer of the encoder within ``model`` for training; without gradients it
    computes as before.

    A model compiles in the time of one layer, and its weights keep their names. Batches then come
    in few shapes: lengths are multiples of `WIDTH`, tokens of a sixteenth of the padded batch.
    Dropout draws other masks.
    """
    encoder: Any = language_model(model)
    if not supports(getattr(encoder, "config", None)) or not isinstance(encoder.forward, partial):
        kind = type(encoder or model).__name__
        raise UserError(
            f"train.compile = true: isotrope does not compile {kind}",
            "set train.compile = false",
            "cannot-compile",
        )
    if not (os.environ.get("CXX") or any(map(shutil.which, COMPILERS))):
        remedy = "install g++, or set train.compile = false"
        raise UserError(
            "train.compile = true needs a C++ compiler, and none is found", remedy, "no-compiler"
        )
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, SHAPES)
    for layer in layers(encoder):
        layer.compile(dynamic=False)
    encoder.forward = update_wrapper(partial(_forward, encoder), encoder.forward)


def _forward(encoder: PreTrainedModel, *args: Any, **kwargs: Any) -> Any:
    """With gradients in few shapes, compiled; without them in any shape, as before."""
    if torch.is_grad_enabled():
        return forward(encoder, *args, width=WIDTH, multiple=None, **kwargs)
    with torch.compiler.set_stance("force_eager"):
        return forward(encoder, *args, **kwargs)


def layers(encoder: PreTrainedModel) -> nn.ModuleList:
    """The transformer layers of an encoder, whatever it calls them; none if they share their
    weights.
    """
    count = encoder.config.num_hidden_layers
    stacks = (
        part for part in encoder.modules() if isinstance(part, nn.ModuleList) and len(part) == count
    )
    return next(stacks, nn.ModuleList())
