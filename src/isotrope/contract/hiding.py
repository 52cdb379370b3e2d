"""Which tokens are hidden from a language model, and what it sees in their places: BERT's masking.

Devlin et al., NAACL 2019, Sec. 3.1. https://aclanthology.org/N19-1423
"""

from typing import Any

import torch
from torch import Tensor, nn

from isotrope.errors import UserError

_AS_MASK, _AS_OTHER = 0.8, 0.9  # 80 % of the hidden tokens are shown as [MASK], 10 % as another, 10 % as they are


def mask_id(tokenizer: Any) -> int:
    """The token that is shown in the place of a hidden one."""
    if tokenizer.mask_token_id is None:
        raise UserError("words are to be hidden, and the model has no word [MASK]", "choose one such as BERT")
    return int(tokenizer.mask_token_id)


class Hiding(nn.Module):
    """Hides each token with probability ``ratio``, special ones apart."""

    special: Tensor

    def __init__(self, tokenizer: Any, ratio: float) -> None:
        super().__init__()
        self.ratio, self.mask_id, self.words = ratio, mask_id(tokenizer), len(tokenizer)
        self.register_buffer("special", torch.tensor(tokenizer.all_special_ids), persistent=False)

    def forward(self, ids: Tensor, mask: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Token ids and mask (n, L) -> which are hidden (n, L) bool, and what is shown (n, L).

        ``noise`` (n, L, 3) is uniform: whether a token is hidden, how it is shown, and as which other.
        """
        hidden = (noise[..., 0] < self.ratio) & mask.bool() & ~torch.isin(ids, self.special.to(ids.device))
        other = torch.where(noise[..., 1] < _AS_OTHER, (noise[..., 2] * self.words).long(), ids)
        return hidden, torch.where(hidden, torch.where(noise[..., 1] < _AS_MASK, self.mask_id, other), ids)


def noise_of_rows(mask: Tensor, seeds: list[int]) -> Tensor:
    """Uniform (n, L, 3) for the real tokens of a mask (n, L), and 1 for padding.

    A sentence's numbers depend on its seed alone: not on the padding, its place or its process.
    """
    real, noise = mask.bool().cpu(), torch.ones(*mask.shape, 3)
    for row, own, seed in zip(noise, real, seeds, strict=True):
        row[own] = torch.rand(int(own.sum()), 3, generator=torch.Generator().manual_seed(seed))
    return noise.to(mask.device)
