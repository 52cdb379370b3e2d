"""Encoding in 16 bits on a CPU that has instructions for it: the matrix products in bfloat16, all
else in float32.

Embeddings, the sums of the residual stream, LayerNorm, pooling and normalisation stay in 32 bits.
Weights are rounded and laid out for the processor once, beside the float32 ones, so the state of
the model is what it was.
"""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.models.modernbert.modeling_modernbert import ModernBertAttention, rotate_half

from isotrope.encoder.fast.attention import packed_attention

ROWS = 1024  # about as many tokens as a pass has: the layout of the weights suits this many


@cache
def has_bf16() -> bool:
    """Whether this processor multiplies bfloat16 numbers itself: AVX-512 BF16 or AMX."""
    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return has_onednn and torch.cpu._is_avx512_bf16_supported()


class NarrowLinear(nn.Linear):
    """A layer that multiplies by rounded weights, which lie beside its own."""

    laid_out: Any = None  # the rounded weights as the processor wants them, from the first pass on

    def __getstate__(self) -> dict[str, Any]:
        """What is copied or sent to another process, which lays the weights out anew."""
        return {name: value for name, value in self.__dict__.items() if name != "laid_out"}


class Linear16(NarrowLinear):
    """(…, A) float32 or bfloat16 -> (…, B) bfloat16, by rounded weights; float32 where the weights
    can be trained.
    """

    def forward(self, input: Tensor) -> Tensor:
        if self.weight.requires_grad:
            return F.linear(input.float(), self.weight, self.bias)
        if self.laid_out is None:
            rounded = self.weight.bfloat16()
            weight = torch.ops.mkldnn._reorder_linear_weight(rounded, ROWS)
            bias = None if self.bias is None else self.bias.bfloat16()
            self.laid_out = (weight, bias)

        rows = input.bfloat16()
        return torch.ops.mkldnn._linear_pointwise(  # type: ignore[no-any-return]
            rows, *self.laid_out, "none", [], ""
        )


class Attention16(ModernBertAttention):
    """(1, T, D) -> (1, T, D). Queries and keys are turned together, in 16 bits; transformers widens
    each twice.
    """

    def forward(
        self, hidden_states: Tensor, position_embeddings: Any, attention_mask: Any, **kwargs: Any
    ) -> Any:
        projected = self.Wqkv(hidden_states)
        heads = projected.unflatten(-1, (3, -1, self.head_dim))  # (1, T, 3, H, d)
        cos, sin = (part.to(heads)[:, :, None, None] for part in position_embeddings)
        pairs = heads[:, :, :2]
        turned = torch.addcmul(pairs * cos, rotate_half(pairs), sin)

        # (1, H, T, d) each.
        query = turned[:, :, 0].transpose(1, 2)
        key = turned[:, :, 1].transpose(1, 2)
        value = heads[:, :, 2].transpose(1, 2)
        kwargs["sliding_window"] = self.sliding_window
        attended, _ = packed_attention(self, query, key, value, attention_mask, **kwargs)
        return self.Wo(attended.flatten(2)), None


HALVES: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: Linear16,
    ModernBertAttention: Attention16,
}
