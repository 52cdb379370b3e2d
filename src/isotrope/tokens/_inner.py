"""Which tokens a token step may touch: those of the sentence, not of its frame or of a prompt; and
their order.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Features = dict[str, Tensor]  # what is read in a pass: input_ids (N, L), attention_mask (N, L), …


def inside(
    attention_mask: Tensor,  # (N, L)
    before: int,
    behind: int,
) -> Tensor:
    """Real tokens without each sentence's first ``before`` and last ``behind`` -> (N, L) bool."""
    is_real = attention_mask.bool()
    number = attention_mask.cumsum(dim=1)  # of real tokens up to here
    count = number[:, -1:]  # (N, 1)
    is_behind_frame = number > before
    is_before_frame = number <= count - behind
    return is_real & is_behind_frame & is_before_frame


def inner(features: Features) -> Tensor:
    """(N, L) bool: the tokens between [CLS] and [SEP], without those of a prompt."""
    # sentence-transformers counts [CLS] with the prompt
    prompt_length = features.get("prompt_length") or 1
    if isinstance(prompt_length, Tensor):
        prompt_length = int(prompt_length.max())
    return inside(features["attention_mask"], prompt_length, 1)


def uniform(like: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform numbers in [0, 1) of such a shape, drawn on the CPU: alike on every device."""
    noise = torch.rand(like.shape, generator=generator)
    return noise.to(like.device)


def random_below(limit: Tensor, generator: torch.Generator) -> Tensor:
    """A random whole number from 0 to ``limit`` - 1, for each (N, 1) -> (N, 1)."""
    noise = uniform(limit, generator)
    return (noise * limit).long()


def row_counts(among: Tensor) -> Tensor:
    """How many of each sentence's tokens are ``among``: (N, L) -> (N, 1)."""
    return among.sum(dim=1, keepdim=True)


def share(
    ratio: float,
    among: Tensor,  # (N, L) bool
    to_whole: Callable[[float], int] = int,
) -> Tensor:
    """⌊ratio·n⌋ of the n tokens ``among``, for each sentence -> (N, 1).

    With ``to_whole = round`` it is the nearest number. The product is Python's, in float64: 0.29 of
    100 tokens are 28, on every device and in every step.
    """
    longest = among.shape[1]
    shares = [to_whole(ratio * count) for count in range(longest + 1)]
    share_of_count = torch.tensor(shares, device=among.device)  # (L + 1,)
    return share_of_count[row_counts(among)]


def places(among: Tensor) -> Tensor:
    """Positions of ``among`` first, then the others, all in their order.

    (N, L) bool -> (N, L).
    """
    is_other = (~among).long()
    return is_other.argsort(dim=1, stable=True)


def random_order(among: Tensor, generator: torch.Generator) -> Tensor:
    """Positions of ``among`` first, in random order, then the others in their order.

    (N, L) bool -> (N, L).
    """
    noise = uniform(among, generator)
    noise = noise.masked_fill(~among, 2.0)  # behind all that can be drawn
    return noise.argsort(dim=1, stable=True)


def chosen(
    among: Tensor,  # (N, L) bool
    count: Tensor,  # (N, 1)
    generator: torch.Generator,
) -> Tensor:
    """``count`` random ones of each sentence's tokens ``among`` -> (N, L) bool."""
    order = random_order(among, generator)
    rank = order.argsort(dim=1)
    return among & (rank < count)


def each_token(features: Features, change: Callable[[Tensor], Tensor]) -> Features:
    """Change the features that have a value for each token, (N, L), all in one way."""
    shape = features["attention_mask"].shape
    changed = dict(features)
    for name, value in features.items():
        if getattr(value, "shape", None) == shape:
            changed[name] = change(value)
    return changed


def padded(features: Features, left: int, right: int) -> Features:
    """Columns of zeros on both sides: (N, L) -> (N, left + L + right)."""
    return each_token(features, lambda value: F.pad(value, (left, right)))


def copies(
    features: Features,
    counts: Tensor,  # (N, L)
) -> Features:
    """Repeat each token as often as its count, where 0 deletes it. Zeros fill the rows on the
    right.

    -> (N, L'), where L' is the length of the longest sentence.
    """
    ends = counts.cumsum(dim=1)  # (N, L) the column after a token's last copy
    lengths = ends[:, -1:]  # (N, 1)
    longest = int(lengths.max())
    columns = torch.arange(longest, device=counts.device)
    columns = columns.repeat(len(counts), 1)  # (N, L')
    is_real = columns < lengths

    # Where the token of each column comes from. Padding may take any.
    source = torch.searchsorted(ends, columns, right=True)
    last_column = counts.shape[1] - 1
    source = source.clamp(max=last_column)

    copied = each_token(features, lambda value: value.gather(1, source) * is_real)
    copied["attention_mask"] = is_real.to(features["attention_mask"])
    return copied
