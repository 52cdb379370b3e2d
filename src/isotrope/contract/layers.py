"""Layers within components: new ones, which learn, models that never change, averages of others,
and hidden tokens.

BERT's masking: Devlin et al., NAACL 2019, https://aclanthology.org/N19-1423, Sec. 3.1; MoCo: He et
al., CVPR 2020, https://arxiv.org/abs/1911.05722, Eq. 2; BYOL: Grill et al., NeurIPS 2020,
https://arxiv.org/abs/2006.07733, Sec. 3.3.
"""

import math
from typing import Any, Self

import torch
from torch import Tensor, nn

from isotrope.errors import UserError

# 80 % of the hidden tokens are shown as [MASK], 10 % as another, 10 % as they are
_AS_MASK, _AS_OTHER = 0.8, 0.9


def as_new(layer: nn.Linear, std: float = 0.02) -> nn.Linear:
    """Start a layer as every new layer of BERT: weights from N(0, ``std``²), bias 0."""
    nn.init.normal_(layer.weight, std=std)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


class Frozen(nn.Module):
    """A model that stays as it is: it moves between devices with its component, and no checkpoint
    holds it.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        model = model.float().eval()
        model.requires_grad_(False)
        self.held = (model,)  # in a tuple, where torch does not look for weights

    def _apply(self, *args: Any, **kwargs: Any) -> Self:
        self.held[0]._apply(*args, **kwargs)  # type: ignore[no-untyped-call]
        return super()._apply(*args, **kwargs)  # type: ignore[no-any-return, no-untyped-call]

    def forward(self, **features: Any) -> Any:
        return self.held[0](**features)


def follow(average: nn.Module, leader: nn.Module, decay: float) -> None:
    """θ_average ← decay · θ_average + (1 − decay) · θ_leader, in place, without gradient; buffers
    are copied.

    Both are the same module, but for a wrapping of ``leader``.
    """
    with torch.no_grad():
        weights = zip(average.parameters(), leader.parameters(), strict=True)
        for average_weight, leader_weight in weights:
            average_weight.lerp_(leader_weight.to(average_weight), 1 - decay)

        buffers = zip(average.buffers(), leader.buffers(), strict=True)
        for average_buffer, leader_buffer in buffers:
            average_buffer.copy_(leader_buffer)


def decay_at(step: int, start: float, rise: int) -> float:
    """The decay after ``step`` steps: it rises from ``start`` to 1 within ``rise`` steps, along
    half a cosine.

    ``rise`` = 0: it stays at ``start``. 1 − (1 − start) · (cos(π · step / rise) + 1) / 2.
    """
    if not rise:
        return start
    angle = math.pi * min(step, rise) / rise
    falling = (math.cos(angle) + 1) / 2  # from 1 to 0
    return 1 - (1 - start) * falling


def mask_id(tokenizer: Any) -> int:
    """The token that is shown in the place of a hidden one."""
    if tokenizer.mask_token_id is None:
        raise UserError(
            "words are to be hidden, and the model has no word [MASK]",
            "choose one such as BERT",
            "no-mask-token",
        )
    return int(tokenizer.mask_token_id)


class Hiding:
    """Hides each token with probability ``ratio``, special ones apart."""

    def __init__(self, tokenizer: Any, ratio: float) -> None:
        self.ratio = ratio
        self.mask_id = mask_id(tokenizer)
        self.words = len(tokenizer)
        self.special = torch.tensor(tokenizer.all_special_ids)

    def __call__(self, ids: Tensor, mask: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Token ids and mask (n, L) -> which are hidden (n, L) bool, and what is shown (n, L).

        ``noise`` (n, L, 3) is uniform: whether a token is hidden, how it is shown, and as which
        other.
        """
        whether, how, which_word = noise.unbind(dim=-1)
        is_special = torch.isin(ids, self.special.to(ids.device))
        is_word = mask.bool() & ~is_special
        hidden = is_word & (whether < self.ratio)

        other_words = (which_word * self.words).long()
        replacements = torch.where(how < _AS_OTHER, other_words, ids)
        replacements = torch.where(how < _AS_MASK, self.mask_id, replacements)
        shown = torch.where(hidden, replacements, ids)
        return hidden, shown


def noise_of_rows(mask: Tensor, seeds: list[int]) -> Tensor:
    """Uniform (n, L, 3) for the real tokens of a mask (n, L), by each sentence's seed alone, and 1
    for padding.
    """
    noise = torch.ones(*mask.shape, 3)
    is_real = mask.bool().cpu()
    for row, seed in enumerate(seeds):
        generator = torch.Generator().manual_seed(seed)
        length = int(is_real[row].sum())
        noise[row, is_real[row]] = torch.rand(length, 3, generator=generator)
    return noise.to(mask.device)
