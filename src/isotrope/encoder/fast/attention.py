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

from isotrope.encoder.fast.products import are_onednn

# Among transformers' attention implementations; no saved configuration mentions it.
ATTENTION_NAME = "isotrope_packed"
# Numbers of a row: torch's softmax in 16 bits takes those that are over one by one.
BLOCK = 32
# Dropout's probabilities are multiples of 2⁻¹⁶; the scale is exact for the one that is taken.
LEVELS = 1 << 16
# Scores held at once without gradients, since the system hands out more memory slowly.
SCORES = 1 << 19
GROUPS = 4  # of a batch's sentences, by length
FEWEST = 16  # sentences; fewer are one group
# Added to a padding's score: exp gives 0 in every precision, and it fits into float16.
HIDDEN = -3e4


Group = tuple[Tensor | slice, int]  # its sentences, and how many columns they have


@dataclass(frozen=True)
class Heads:
    """Where the H heads of T packed tokens stand in groups of padded sentences.

    A group has g sentences, all as long as its longest: (g, H, l). Without gradients, padding may
    be any token, since scores hide it.

    Attributes:
        masks: of each group (g, 1, 1, l): 0 for real tokens, HIDDEN for padding.
        places: (T·H,) into M = Σ g·H·l.
        rows: (M,) into T·H.
    """

    masks: list[Tensor]
    places: Tensor
    rows: Tensor

    @classmethod
    def of(cls, bias: Tensor, rows: Tensor, count: int, groups: list[Group]) -> "Heads":
        """Cut a batch into groups of sentences that are about as long.

        Args:
            bias: (N, 1, 1, L), added to the scores: 0 for real tokens.
            rows: (N, H, L), where each head of each token stands among the packed ones; at least
                ``count`` for padding.
            count: T·H, the packed ones.
            groups: the sentences of each group, and how many columns they have.
        """
        masks = []
        group_rows = []
        for sentences, columns in groups:
            masks.append(bias[sentences, :, :, :columns])
            group_rows.append(rows[sentences, :, :columns].flatten())
        all_rows = torch.cat(group_rows)  # (M,)

        # Of each token's heads, where they stand: the inverse index.
        places = all_rows.new_full((count,), len(all_rows))
        holds_token = all_rows < count
        tokens = all_rows[holds_token]
        places[tokens] = holds_token.nonzero().squeeze(1)
        return cls(masks, places, all_rows)

    def pad(self, x: Tensor) -> list[Tensor]:
        """Unpack heads: (1, H, T, d) -> (g, H, l, d) of each group."""
        _, heads, _, size = x.shape
        packed = x.transpose(1, 2).reshape(-1, size)  # (T·H, d)
        padded = _take(packed, self.rows, self.places)  # (M, d)

        sizes = [mask.numel() * heads for mask in self.masks]
        groups = []
        for group, mask in zip(torch.split(padded, sizes), self.masks, strict=True):
            groups.append(group.view(len(mask), heads, -1, size))
        return groups

    def pack(self, groups: list[Tensor]) -> Tensor:
        """(g, H, l, d) of each group -> (1, T, H, d)."""
        _, heads, _, size = groups[0].shape
        padded = [group.reshape(-1, size) for group in groups]
        if len(padded) > 1:
            padded = [torch.cat(padded)]
        packed = _take(padded[0], self.places, self.rows)
        return packed.view(1, -1, heads, size)


@dataclass(frozen=True)
class Packing:
    """Where T real tokens stand in a padded batch (N, L).

    Indices of padding point one behind the end: at a row of zeros. So do those of filler tokens,
    with which T is rounded up where a machine likes few different shapes.

    Attributes:
        bias: (N, 1, 1, L), 0 for real tokens, HIDDEN for padding.
        places: (T,) into N·L.
        rows: (N·L,) into T.
        heads: all sentences in one group.
    """

    bias: Tensor
    places: Tensor
    rows: Tensor
    heads: Heads

    @classmethod
    def from_mask(cls, mask: Tensor, heads: int, multiple: int = 1) -> "Packing":
        """The packing of an attention mask (N, L), 0 or False for padding.

        The number of tokens is rounded up to a ``multiple``.
        """
        n, length = mask.shape
        is_real = mask.flatten() != 0
        places = is_real.nonzero().squeeze(1)
        filler = -len(places) % multiple
        tokens = len(places) + filler
        number = is_real.cumsum(0) - 1
        rows = torch.where(is_real, number, tokens)
        places = F.pad(places, (0, filler), value=mask.numel())
        bias = torch.where(is_real, 0.0, HIDDEN).view(n, 1, 1, length)

        # The same for the tokens of each head.
        head = torch.arange(heads, device=mask.device)
        count = tokens * heads
        head_rows = rows.view(n, 1, length) * heads + head[:, None]  # (N, H, L)
        head_rows = head_rows.clamp(max=count)
        one_group = Heads.of(bias, head_rows, count, [(slice(None), length)])
        return cls(bias, places, rows, one_group)

    @cached_property
    def groups(self) -> Heads:
        """The sentences by their length, so that little is padding; all layers share them."""
        is_real = self.bias[:, 0, 0] == 0  # (N, L), which may have holes
        n, length = is_real.shape
        number = torch.arange(1, length + 1, device=is_real.device)
        lengths = (is_real * number).amax(1)  # (N,)
        rows = self.heads.rows.view(n, -1, length)  # (N, H, L)

        groups: list[Group] = []
        by_length = lengths.argsort(stable=True)
        for sentences in by_length.tensor_split(GROUPS):
            longest = int(lengths[sentences].max())
            groups.append((sentences, longest))
        return Heads.of(self.bias, rows, len(self.heads.places), groups)

    def pack(self, x: Tensor) -> Tensor:
        """(N, L, …) -> (1, T, …)."""
        rows = x.flatten(0, 1)  # (N·L, …)
        packed: Tensor = _Take.apply(rows, self.places, self.rows)  # type: ignore[no-untyped-call]
        return packed[None]

    def pad(self, x: Tensor) -> Tensor:
        """(1, T, …) -> (N, L, …), zero for padding."""
        padded: Tensor = _Take.apply(x[0], self.rows, self.places)  # type: ignore[no-untyped-call]
        return padded.view(len(self.bias), -1, *x.shape[2:])


class _Take(torch.autograd.Function):
    """Rows by index, zeros for one behind the end.

    Gradients go back by the inverse index: a copy, not a sum.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(inverse)
        return _rows(x, index)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (inverse,) = ctx.saved_tensors
        return _rows(gradients[0], inverse), None, None


def _rows(x: Tensor, index: Tensor) -> Tensor:
    zeros = x.new_zeros(1, *x.shape[1:])
    return torch.cat([x, zeros]).index_select(0, index)


def _take(x: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
    """`_Take`; without gradients, any row for an index behind the end, which saves a copy."""
    if not x.requires_grad:
        last = len(x) - 1
        return x.index_select(0, index.clamp(max=last))
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
    """Attention of a packed batch, as transformers calls it: heads (1, H, T, d) -> (1, T, H, d).

    ``attention_mask`` is the packing's bias; without a packing the batch is an ordinary padded one.
    """
    if packing is None or attention_mask is None:
        return sdpa_attention_forward(  # type: ignore[no-any-return]
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )

    length = attention_mask.shape[-1]
    if sliding_window is not None and length > sliding_window:
        column = torch.arange(length, device=query.device)
        distance = (column - column[:, None]).abs()  # (L, L)
        attention_mask = attention_mask.masked_fill(distance >= sliding_window, HIDDEN)
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
    is_half = query.element_size() == 2
    # For CPUs, torch's kernel has no dropout, and it is slow in half precision, above all its
    # gradient. It never multiplies by oneDNN. But it needs less memory for gradients.
    on_processor = query.device.type == "cpu"
    has_faster_products = are_onednn() and not query.requires_grad
    is_plain = on_processor and (is_half or dropout > 0 or has_faster_products)

    heads = packing.heads
    biases = [bias]
    has_gradient_in_half = is_plain and is_half and query.requires_grad and not dropout
    if has_gradient_in_half and bias is packing.bias and len(bias) >= FEWEST:
        heads = packing.groups
        biases = heads.masks

    queries = heads.pad(query)
    keys = heads.pad(key)
    values = heads.pad(value)
    attended = []
    for q, k, v, b in zip(queries, keys, values, biases, strict=True):
        if is_plain:
            outputs = _plain(q, k, v, b, dropout, scaling)
        else:
            n, _, length, _ = q.shape
            mask = b.to(q.dtype).expand(n, -1, length, length)
            outputs = F.scaled_dot_product_attention(q, k, v, mask, dropout, scale=scaling)
        attended.append(outputs)
    return heads.pack(attended)


def _plain(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, dropout: float, scaling: float | None
) -> Tensor:
    """Attention as it is written, where torch's kernel is slower."""
    n, heads, length, size = query.shape
    biases = bias.to(query.dtype).expand(n, heads, -1, length)  # (N, H, 1 or L, L)
    scale = size**-0.5 if scaling is None else scaling
    at_once = n * heads
    if not torch.is_grad_enabled():
        at_once = max(1, SCORES // length**2)
    is_slow_in_half = length % BLOCK != 0 or length < 2 * BLOCK
    is_widened = query.element_size() == 2 and is_slow_in_half

    attended = []
    matrices = [x.flatten(0, 1) for x in (query, key, value, biases)]  # (N·H, …)
    chunks = [torch.split(matrix, at_once) for matrix in matrices]
    for q, k, v, b in zip(*chunks, strict=True):
        scores = torch.baddbmm(b, q, k.mT, alpha=scale)
        if is_widened:
            scores = scores.float()
        weights = scores.softmax(dim=-1).to(v.dtype)
        weights = drop(weights, dropout)
        attended.append(torch.bmm(weights, v))
    return torch.cat(attended).view_as(query)


class _Dropped(torch.autograd.Function):
    """Dropout by sixteen random bits a number.

    torch's own calls take as long as a third of the matrix products around them.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: int) -> Tensor:
        # Full-range 64-bit integers of torch's generator, read as four 16-bit ones: manual_seed
        # fixes the mask.
        count = x.numel()
        words = torch.empty((count + 3) // 4, dtype=torch.int64)
        words.random_(-(2**63), None)
        bits = words.view(torch.int16)[:count]
        is_kept = bits < kept - LEVELS // 2
        mask = is_kept.view(x.shape).to(x.dtype)
        ctx.save_for_backward(mask)
        ctx.scale = LEVELS / kept
        return (x * mask).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return (gradients[0] * mask).mul_(ctx.scale), None


def drop(x: Tensor, p: float) -> Tensor:
    """Set each number of ``x`` to 0 with probability ``p``, and divide the others by 1 − p."""
    kept = round((1 - p) * LEVELS)
    is_trivial = not 0 < kept < LEVELS
    if x.device.type != "cpu" or is_trivial or torch.compiler.is_compiling():
        return F.dropout(x, p)
    return _Dropped.apply(x, kept)  # type: ignore[no-any-return, no-untyped-call]


class Dropout(nn.Dropout):
    """``nn.Dropout``, faster on a CPU; other masks from the same seed."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return input
        return drop(input, self.p)


AttentionInterface.register(ATTENTION_NAME, packed_attention)
AttentionMaskInterface.register(ATTENTION_NAME, sdpa_mask)
