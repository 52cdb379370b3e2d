"""Packed encoding: a batch is one row of its real tokens.

So padding costs nothing in any linear layer. N sentences of l_i tokens run through embeddings,
linear layers, norms and MLP as (1, T, D), T = Σ l_i. Only attention sees (N, H, L, d) again, and
the output is padded as before. So poolings, saved models, and losses that patch the model's forward
need no change. On a GPU, layers can be compiled too: small batches wait for launches of small
kernels.
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

# Model types, by where positions begin.
FROM_FIRST_COLUMN = {"bert", "electra", "distilbert", "modernbert"}
BEHIND_PADDING_INDEX = {"roberta", "xlm-roberta", "camembert", "mpnet"}
PER_TOKEN = ("input_ids", "inputs_embeds", "token_type_ids", "position_ids")
# What asks for more than an encoder.
ELSEWHERE = ("past_key_values", "encoder_hidden_states", "output_attentions")
# Of tokens, on a GPU: a few shapes for its allocator and its kernels.
MULTIPLE = 256
# Few shapes for the compiler: lengths are multiples of `WIDTH`, and tokens are multiples of a
# `SHARE`-th of the padded batch.
WIDTH = 32
SHARE = 16
COMPILERS = ("g++", "clang++", "c++", "cl")
SHAPES = 64  # that are compiled; torch's own limit of 8 would have it compute further ones eagerly


def supports(config: PreTrainedConfig | None) -> bool:
    """Whether `pack` knows the architecture; others go on padded, with the same numbers."""
    kind = getattr(config, "model_type", None)
    is_known = kind in FROM_FIRST_COLUMN | BEHIND_PADDING_INDEX
    return is_known and not getattr(config, "is_decoder", False)


def pack(model: PreTrainedModel) -> None:
    """Make a transformers encoder compute only real tokens, in place.

    ``model(input_ids (N, L), attention_mask (N, L), …)`` gives what it gave, to rounding, with
    zeros for padding. Dropout draws other masks from the same seed. A model that is not supported
    stays as it is.
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
    """``type(model).forward``, packed if it has an attention mask (N, L) and returns only states.

    Within, lengths are multiples of ``width``, and numbers of tokens of ``multiple``: so there are
    few shapes. None: of a `SHARE`-th of the padded batch.
    """
    if args or not _can_pack(kwargs):
        return type(model).forward(model, *args, **kwargs)
    mask: Tensor = kwargs["attention_mask"]
    length = mask.shape[1]
    inputs = _token_inputs(model, kwargs)
    columns = -length % width
    if columns:
        mask = F.pad(mask, (0, columns))
        for name, value in inputs.items():
            inputs[name] = _with_columns(value, columns)

    if multiple is None:
        multiple = -(-mask.numel() // SHARE)
    elif mask.is_cuda:
        multiple = MULTIPLE
    packing = Packing.from_mask(mask, model.config.num_attention_heads, multiple)
    # A mask of four dimensions goes to the attention as it is; the packing follows it down to every
    # layer.
    packed: dict[str, Any] = {"attention_mask": packing.bias, "packing": packing}
    for name, value in inputs.items():
        packed[name] = packing.pack(value)
    token = _packing.set(packing)
    try:
        output = type(model).forward(model, **kwargs | packed)
    finally:
        _packing.reset(token)

    def unpack(states: Tensor) -> Tensor:
        return packing.pad(states)[:, :length]

    states = unpack(output["last_hidden_state"])
    output["last_hidden_state"] = states
    if output.get("hidden_states") is not None:
        output["hidden_states"] = tuple(map(unpack, output["hidden_states"]))
    if output.get("pooler_output") is not None:
        output["pooler_output"] = model.pooler(states)
    return output


def _can_pack(arguments: dict[str, Any]) -> bool:
    """Whether a forward pass has an attention mask (N, L), and only states are asked for."""
    mask = arguments.get("attention_mask")
    if not isinstance(mask, Tensor) or mask.ndim != 2:
        return False
    for name in ELSEWHERE:
        value = arguments.get(name)
        if value is not None and value is not False:
            return False
    return bool(arguments.get("return_dict", True))


def _token_inputs(model: PreTrainedModel, arguments: dict[str, Any]) -> dict[str, Tensor]:
    """What a forward pass is given for each token, with positions: (N, L, …) each."""
    mask = arguments["attention_mask"]
    inputs: dict[str, Tensor] = {}
    for name in PER_TOKEN:
        if arguments.get(name) is not None:
            inputs[name] = arguments[name]
    if "position_ids" not in inputs:
        inputs["position_ids"] = positions(model, arguments.get("input_ids"), mask)
    for name, value in inputs.items():
        inputs[name] = value.expand(mask.shape + value.shape[2:])
    return inputs


def _with_columns(x: Tensor, columns: int) -> Tensor:
    """(N, L, …) -> (N, L + columns, …), zeros at the end."""
    no_padding = (0, 0) * (x.ndim - 2)
    return F.pad(x, (*no_padding, 0, columns))


# Of the forward pass under way: MPNet hands nothing of ours down to its encoder.
_packing: ContextVar[Packing | None] = ContextVar("_packing", default=None)


class _Places(NamedTuple):
    """What the encoder hands to its layers instead of the relative positions' bias."""

    packing: Packing
    bias: Tensor  # (1, H, L, L), of one sentence


class _Encoder(MPNetEncoder):
    def compute_position_bias(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor | _Places:
        """The relative positions' bias of one sentence, with the packing if there is one."""
        packing = _packing.get()
        if packing is None:
            return super().compute_position_bias(x, *args, **kwargs)  # type: ignore[no-any-return]
        longest = packing.bias.shape[-1]
        one_sentence = x.new_empty(1, longest, 0)
        return _Places(packing, super().compute_position_bias(one_sentence, *args, **kwargs))


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
            return super().forward(  # type: ignore[no-any-return]
                hidden_states, attention_mask, position_bias, *args, **kwargs
            )
        packing, bias = position_bias
        bias = attention_mask + bias
        query = self._heads(self.q(hidden_states))
        key = self._heads(self.k(hidden_states))
        value = self._heads(self.v(hidden_states))
        dropout = self.dropout.p if self.training else 0.0
        attended = attend(query, key, value, packing, bias, dropout, None)
        return (self.o(attended.flatten(2)),)

    def _heads(self, states: Tensor) -> Tensor:
        """(1, T, H·d) -> (1, H, T, d)."""
        shape = (1, -1, self.num_attention_heads, self.attention_head_size)
        return states.view(shape).transpose(1, 2)


# Classes that are replaced, with the same weights.
FASTER = {nn.Dropout: Dropout, MPNetEncoder: _Encoder, MPNetSelfAttention: _SelfAttention}


def compile_layers(model: nn.Module) -> None:
    """Compile each layer of the encoder within ``model`` for training.

    A model compiles in the time of one layer, and its weights keep their names. Batches then come
    in few shapes: lengths are multiples of `WIDTH`, tokens of a sixteenth of the padded batch.
    Dropout draws other masks. Without gradients, the model computes as before.

    Raises:
        UserError: isotrope does not know the architecture, or there is no C++ compiler.
    """
    encoder: Any = language_model(model)
    is_packed = isinstance(getattr(encoder, "forward", None), partial)
    if not supports(getattr(encoder, "config", None)) or not is_packed:
        kind = type(encoder or model).__name__
        problem = f"train.compile = true: isotrope does not compile {kind}"
        raise UserError(problem, "set train.compile = false", "cannot-compile")
    is_installed = any(map(shutil.which, COMPILERS))
    if not is_installed and not os.environ.get("CXX"):
        problem = "train.compile = true needs a C++ compiler, and none is found"
        remedy = "install g++, or set train.compile = false"
        raise UserError(problem, remedy, "no-compiler")

    limits = torch._dynamo.config
    limits.recompile_limit = max(limits.recompile_limit, SHAPES)
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
    """The transformer layers of an encoder, whatever it calls them.

    None if they share their weights.
    """
    count = encoder.config.num_hidden_layers
    for module in encoder.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return module
    return nn.ModuleList()
