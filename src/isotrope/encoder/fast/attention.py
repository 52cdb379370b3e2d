"""Attention over packed rows, where sentences stand apart from each other again, and its faster
dropout for CPUs.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

# among transformers' attention implementations; no saved configuration mentions it
ATTENTION_NAME = "isotrope_packed"
BLOCK = 32  # numbers of a row: torch's softmax in 16 bits takes those that are over one by one
# dropout's probabilities are multiples of 2⁻¹⁶; the scale is exact for the one that is taken
LEVELS = 1 << 16
# numbers: without gradients no more are held, since the system hands out more memory slowly
SCORES = 1 << 19
GROUPS, FEWEST = 4, 16  # of a batch's sentences, by length; with fewer sentences, one group
# added to a padding's score: exp gives 0 in every precision, and it fits into float16
HIDDEN = -3e4


@dataclass(frozen=True)
class Heads:
    """Where the H heads of T packed tokens stand in groups of g sentences, each as long as its
    longest: (g, H, l).
    """

    masks: list[Tensor]  # of each group (g, 1, 1, l): 0 for real tokens, HIDDEN for padding
    places: Tensor  # (T·H,) into M = Σ g·H·l
    rows: Tensor  # (M,) into T·H

    def pad(self, x: Tensor) -> list[Tensor]:
        """(1, H, T, d) -> (g, H, l, d); padding is zero, or without gradients any token, since
        scores hide it.
        """
        heads, size = x.shape[1], x.shape[-1]
        flat = _take(x.transpose(1, 2).reshape(-1, size), self.rows, self.places)
        parts = torch.split(flat, [len(mask) * heads * mask.shape[-1] for mask in self.masks])
        return [
            part.view(len(mask), heads, -1, size)
            for part, mask in zip(parts, self.masks, strict=True)
        ]

    def pack(self, parts: list[Tensor]) -> Tensor:
        """(g, H, l, d) of each group -> (1, T, H, d)."""
        heads, size = parts[0].shape[1], parts[0].shape[-1]
        flat = [part.reshape(-1, size) for part in parts]
        whole = torch.cat(flat) if len(flat) > 1 else flat[0]  # a copy that one group does not need
        return _take(whole, self.places, self.rows).view(1, -1, heads, size)


@dataclass(frozen=True)
class Packing:
    """Where T real tokens stand in a padded batch (N, L).

    Indices of padding point one behind the end: at a row of zeros. So do those of filler tokens,
    with which T is rounded up where a machine likes few different shapes.
    """

    bias: Tensor  # (N, 1, 1, L): 0 for real tokens, HIDDEN for padding
    places: Tensor  # (T,) into N·L
    rows: Tensor  # (N·L,) into T
    heads: Heads  # all sentences in one group

    @classmethod
    def from_mask(cls, mask: Tensor, heads: int, multiple: int = 1) -> "Packing":
        """From an attention mask (N, L), 0 or False for padding; ``multiple``: of which T is one."""
        n, length = mask.shape
        real = mask.reshape(-1) != 0
        places = real.nonzero().squeeze(1)
        rows = torch.where(real, real.cumsum(0) - 1, -(-len(places) // multiple) * multiple)
        places = F.pad(places, (0, -len(places) % multiple), value=n * length)
        head = torch.arange(heads, device=mask.device)
        sentence, column = places // length, places % length
        head_places = (sentence[:, None] * heads + head) * length + column[:, None]  # (T, H)
        head_rows = rows.view(n, 1, length) * heads + head[:, None]  # (N, H, L)
        head_rows = head_rows.clamp(max=len(places) * heads)
        bias = torch.zeros(mask.shape, device=mask.device).masked_fill_(mask == 0, HIDDEN)[
            :, None, None
        ]
        head_places = head_places.clamp(max=n * heads * length)
        return cls(bias, places, rows, Heads([bias], head_places.view(-1), head_rows.view(-1)))

    @cached_property
    def groups(self) -> Heads:
        """The sentences by their length, so that little is padding; all layers share them."""
        real = self.bias[:, 0, 0] == 0  # (N, L), which may have holes
        lengths = (real * torch.arange(1, real.shape[1] + 1, device=real.device)).amax(1)
        rows = self.heads.rows.view(len(real), -1, real.shape[1])  # (N, H, L)
        masks, parts = list[Tensor](), list[Tensor]()
        for group in lengths.argsort(stable=True).tensor_split(GROUPS):
            longest = int(lengths[group].max())
            masks.append(self.bias[group, :, :, :longest])
            parts.append(rows[group, :, :longest].reshape(-1))
        both = torch.cat(parts)
        places = torch.full_like(self.heads.places, len(both))
        held = both < len(places)
        places[both[held]] = held.nonzero().squeeze(1)
        return Heads(masks, places, both)

    def pack(self, x: Tensor) -> Tensor:
        """(N, L, …) -> (1, T, …)."""
        return _Take.apply(x.flatten(0, 1), self.places, self.rows)[None]  # type: ignore[no-any-return, no-untyped-call]

    def pad(self, x: Tensor) -> Tensor:
        """(1, T, …) -> (N, L, …), zero for padding."""
        found = _Take.apply(x[0], self.rows, self.places)  # type: ignore[no-untyped-call]
        return found.view(len(self.bias), -1, *x.shape[2:])  # type: ignore[no-any-return]


class _Take(torch.autograd.Function):
    """Rows by index, zeros for one behind the end. Gradients go back by the inverse index: a copy,
    not a sum.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(inverse)
        return _rows(x, index)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return _rows(gradients[0], *ctx.saved_tensors), None, None


def _rows(x: Tensor, index: Tensor) -> Tensor:
    return torch.cat([x, x.new_zeros(1, *x.shape[1:])]).index_select(0, index)


def _take(x: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
    if not x.requires_grad:  # without a copy for the zeros
        return x.index_select(0, index.clamp(max=len(x) - 1))
    return _Take.apply(x, index, inverse)  # type: ignore[no-any-return, no-untyped-call]


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    packing: Packing | None = None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Heads (1, H, T, d) of a packed batch -> (1, T, H, d), as transformers calls an attention
    implementation.

    ``attention_mask`` is the packing's bias; without a packing the batch is an ordinary padded one.
    """
    if packing is None or attention_mask is None:
        found, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
        return found, None
    if sliding_window is not None and attention_mask.shape[-1] > sliding_window:
        column = torch.arange(attention_mask.shape[-1], device=query.device)
        far = (column - column[:, None]).abs() >= sliding_window  # (L, L)
        attention_mask = attention_mask.masked_fill(far, HIDDEN)
    return attend(query, key, value, packing, attention_mask, dropout, scaling), None


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    packing: Packing,
    bias: Tensor,
    dropout: float,
    scaling: float | None,
) -> Tensor:
    """Heads (1, H, T, d) -> (1, T, H, d); ``bias``, added to the scores, broadcasts to (N, H, L,
    L).
    """
    half, heads, biases = query.element_size() == 2, packing.heads, [bias]
    if query.device.type == "cpu" and (dropout or half):
        # For CPUs, torch's kernel has no dropout, and it is slow in half precision, above all its
        # gradient.
        attention = _plain
        if (
            half
            and query.requires_grad
            and not dropout
            and bias is packing.bias
            and len(bias) >= FEWEST
        ):
            heads, biases = packing.groups, packing.groups.masks
    else:
        attention = _fused
    each = zip(*(heads.pad(x) for x in (query, key, value)), biases, strict=True)
    return heads.pack([attention(q, k, v, b, dropout, scaling) for q, k, v, b in each])


def _fused(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, dropout: float, scaling: float | None
) -> Tensor:
    """Attention by torch's kernel."""
    n, _, length, _ = query.shape
    mask = bias.to(query.dtype).expand(n, -1, length, length)
    return F.scaled_dot_product_attention(query, key, value, mask, dropout, scale=scaling)


def _plain(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, dropout: float, scaling: float | None
) -> Tensor:
    """Attention as it is written, where torch's kernel is slower."""
    n, heads, length, size = query.shape
    query, key, value = (x.reshape(n * heads, length, size) for x in (query, key, value))
    # (N·H, 1 or L, L)
    bias = bias.to(query.dtype).expand(n, heads, -1, length).reshape(n * heads, -1, length)
    scale = size**-0.5 if scaling is None else scaling
    # sentences' heads at once
    step = len(query) if torch.is_grad_enabled() else max(1, SCORES // length**2)
    widened = query.element_size() == 2 and (length % BLOCK != 0 or length < 2 * BLOCK)
    parts = []
    for q, k, v, b in zip(*(torch.split(x, step) for x in (query, key, value, bias)), strict=True):
        scores = torch.baddbmm(b, q, k.mT, alpha=scale)
        scores = scores.float() if widened else scores
        parts.append(torch.bmm(drop(scores.softmax(dim=-1).to(v.dtype), dropout), v))
    return torch.cat(parts).view(n, heads, length, size)


class _Dropped(torch.autograd.Function):
    """Sixteen random bits a number: torch's own calls take as long as a third of the matrix
    products around them.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: int) -> Tensor:
        # Full-range 64-bit integers of torch's generator, read as four 16-bit ones: manual_seed
        # fixes the mask.
        bits = (
            torch.empty(-(-x.numel() // 4), dtype=torch.int64)
            .random_(-(2**63), None)
            .view(torch.int16)
        )
        mask = (bits[: x.numel()].view(x.shape) < kept - LEVELS // 2).to(x.dtype)
        ctx.save_for_backward(mask)
        ctx.scale = LEVELS / kept
        return (x * mask).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return (gradients[0] * mask).mul_(ctx.scale), None


def drop(x: Tensor, p: float) -> Tensor:
    """Each number of ``x`` set to 0 with probability ``p``, the others divided by 1 − p; same
    shape.
    """
    kept = round((1 - p) * LEVELS)
    if x.device.type != "cpu" or not 0 < kept < LEVELS or torch.compiler.is_compiling():
        return F.dropout(x, p)
    return _Dropped.apply(x, kept)  # type: ignore[no-any-return, no-untyped-call]


class Dropout(nn.Dropout):
    """``nn.Dropout``, faster on a CPU; other masks from the same seed."""

    def forward(self, input: Tensor) -> Tensor:
        return drop(input, self.p) if self.training else input


AttentionInterface.register(ATTENTION_NAME, packed_attention)
AttentionMaskInterface.register(ATTENTION_NAME, sdpa_mask)
