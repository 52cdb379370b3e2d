"""MPNet over packed rows: it knows nothing of transformers' attention interface, so its attention is replaced."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from torch import Tensor, nn
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder, MPNetSelfAttention

from isotrope.encoder.fast.attention import Packing, attend

# Of the forward pass under way: MPNet hands nothing of ours down to its encoder.
_packing: ContextVar[Packing | None] = ContextVar("_packing", default=None)


@contextmanager
def passing(packing: Packing) -> Iterator[None]:
    """The forward pass within is over these packed rows."""
    token = _packing.set(packing)
    try:
        yield
    finally:
        _packing.reset(token)


class _Places(NamedTuple):
    """What the encoder hands to its layers instead of the relative positions' bias."""

    packing: Packing
    bias: Tensor  # (1, H, L, L), of one sentence


class _Encoder(MPNetEncoder):
    def compute_position_bias(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor | _Places:
        """(1, T, D) -> the relative positions' bias of one sentence, with the packing where there is one."""
        packing = _packing.get()
        if packing is None:
            return super().compute_position_bias(x, *args, **kwargs)  # type: ignore[no-any-return]
        x = x.new_empty(1, packing.bias.shape[-1], 0)
        return _Places(packing, super().compute_position_bias(x, *args, **kwargs))


class _SelfAttention(MPNetSelfAttention):
    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor, position_bias: Tensor | _Places, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, ...]:
        """(1, T, D) -> (1, T, D); the mask is the packing's bias."""
        if not isinstance(position_bias, _Places):
            return super().forward(hidden_states, attention_mask, position_bias, *args, **kwargs)  # type: ignore[no-any-return]
        packing, bias = position_bias
        shape = (1, -1, self.num_attention_heads, self.attention_head_size)
        q, k, v = (part(hidden_states).view(shape).transpose(1, 2) for part in (self.q, self.k, self.v))
        dropout = self.dropout.p if self.training else 0.0
        found = attend(q, k, v, packing, attention_mask + bias, dropout, None)
        return (self.o(found.flatten(2)),)


def take_over(model: nn.Module) -> None:
    """Let ``model``'s encoder and attention modules read the packing; weights and their names stay."""
    for module in model.modules():
        if type(module) is MPNetEncoder:
            module.__class__ = _Encoder
        elif type(module) is MPNetSelfAttention:
            module.__class__ = _SelfAttention
