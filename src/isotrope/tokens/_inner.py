"""Which tokens a token step may touch: those of the sentence, not of its frame or of a prompt; and
their order.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def inside(attention_mask: Tensor, before: int, behind: int) -> Tensor:
    """Real tokens without each sentence's first ``before`` and last ``behind``.

    (N, L) -> (N, L) bool.
    """
    is_real = attention_mask.bool()
    number = attention_mask.cumsum(dim=1)  # of real tokens up to here
    last = number[:, -1:] - behind
    is_inside = (number > before) & (number <= last)
    return is_real & is_inside


def inner(features: dict[str, Any]) -> Tensor:
    """(N, L) bool: the tokens between [CLS] and [SEP], without those of a prompt."""
    # sentence-transformers counts [CLS] with the prompt
    prompt_length = features.get("prompt_length") or 1
    if isinstance(prompt_length, Tensor):
        prompt_length = int(prompt_length.max())
    return inside(features["attention_mask"], prompt_length, 1)


def uniform(shape: Sequence[int], generator: torch.Generator, device: torch.device) -> Tensor:
    """Uniform numbers in [0, 1) of this shape, drawn on the CPU: alike on every device."""
    return torch.rand(*shape, generator=generator).to(device)


def row_counts(among: Tensor) -> Tensor:
    """How many of each sentence's tokens are ``among``: (N, L) -> (N, 1)."""
    return among.sum(dim=1, keepdim=True)


def share(ratio: float, among: Tensor, to_whole: Callable[[float], int] = int) -> Tensor:
    """⌊ratio·n⌋ of the n tokens ``among``, for each sentence: (N, L) -> (N, 1).

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
    noise = uniform(among.shape, generator, among.device)
    noise = noise.masked_fill(~among, 2.0)  # behind all that can be drawn
    return noise.argsort(dim=1, stable=True)


def chosen(among: Tensor, count: Tensor, generator: torch.Generator) -> Tensor:
    """``count`` (N, 1) random ones of each sentence's tokens ``among``: (N, L) bool, both."""
    rank = random_order(among, generator).argsort(dim=1)
    return among & (rank < count)


def per_token(features: dict[str, Any]) -> dict[str, Tensor]:
    """The features that have a value for each token, (N, L)."""
    shape = features["attention_mask"].shape
    values = {}
    for name, value in features.items():
        if getattr(value, "shape", None) == shape:
            values[name] = value
    return values


def copies(features: dict[str, Any], times: Tensor) -> dict[str, Any]:
    """Repeat each token ``times`` (N, L), where 0 deletes it; zeros fill the rows on the right.

    -> (N, L'), where L' is the length of the longest sentence.
    """
    ends = times.cumsum(dim=1)  # (N, L) the column after a token's last copy
    lengths = ends[:, -1:]  # (N, 1)
    longest = int(lengths.max())
    columns = torch.arange(longest, device=times.device).repeat(len(times), 1)  # (N, L')
    is_real = columns < lengths

    # Where the token of each column comes from. Padding may take any.
    source = torch.searchsorted(ends, columns, right=True)
    last_column = times.shape[1] - 1
    source = source.clamp(max=last_column)

    copied = dict(features)
    for name, value in per_token(features).items():
        copied[name] = value.gather(1, source) * is_real
    copied["attention_mask"] = is_real.to(features["attention_mask"])
    return copied
