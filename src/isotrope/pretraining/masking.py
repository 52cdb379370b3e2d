"""Blocks of tokens and what is hidden in them, as a pure function of (seed, place in the run)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from isotrope.pretraining.recipe import Recipe
from isotrope.pretraining.text import SPECIAL, START, Ids


class Blocks(Dataset[dict[str, Any]]):
    """The run's blocks (B, L) in order, ``length`` of them: a fresh permutation for every pass over the corpus.

    The trainer reads places one after the other, so a resumed run only has to know its step.
    """

    def __init__(self, blocks: Ids, length: int, seed: int) -> None:
        self.blocks, self.length, self.seed = blocks, length, seed
        self._epoch, self._order = -1, np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: int) -> dict[str, Any]:
        epoch, within = divmod(place, len(self.blocks))
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng([self.seed, epoch]).permutation(len(self.blocks))
        return {"ids": self.blocks[self._order[within]], "place": place}


def hide(ids: np.ndarray[Any, Any], recipe: Recipe, vocabulary: int, seed: int, place: int) -> Any:
    """Choose the tokens of one block (L,) to predict, and how they are shown: (shown (L,), labels (L,)).

    Exactly round(mask · L) tokens are chosen, never a special one while others are left: equal counts give equal
    shapes, hence the same compiled kernels before and after a resume.
    Labels are -100 where nothing is to be predicted. BERT's masking: Devlin et al. 2019.
    """
    generator, special = np.random.default_rng([seed, place]), len(SPECIAL)  # [MASK] is the last of these
    keys = generator.random(len(ids)) + (ids < special)  # (L,): special tokens sort behind all others
    chosen = np.argsort(keys)[: round(recipe.mask * len(ids))]
    how, random_ids = generator.random(len(chosen)), generator.integers(special, vocabulary, len(chosen))
    shown, labels = ids.copy(), np.full(len(ids), -100, dtype=np.int64)
    labels[chosen] = ids[chosen]
    as_random = np.where(how < recipe.masked_by_mask + recipe.masked_by_random, random_ids, ids[chosen])
    shown[chosen] = np.where(how < recipe.masked_by_mask, special - 1, as_random)
    return shown, labels


def within_sentences(sentence: Tensor, attention: str) -> Tensor:
    """Attention mask (B, 1, L, L) that joins the tokens with the same number in sentence (B, L).

    True and False for "sdpa"; what is added to the scores, 0 and -inf, for transformers' "eager".
    """
    same = (sentence[:, :, None] == sentence[:, None, :])[:, None]
    return same if attention == "sdpa" else torch.zeros(same.shape).masked_fill_(~same, float("-inf"))


@dataclass(frozen=True, slots=True)
class MaskingCollator:
    """Blocks to a model's batch; attention stays inside each sentence, so a block trains what a lone sentence meets."""

    recipe: Recipe
    vocabulary: int
    seed: int
    attention: str

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        """Rows of {"ids": (L,), "place"} -> input_ids (B, L), labels (B, L), attention_mask (B, 1, L, L)."""
        ids = [row["ids"].astype(np.int64) for row in rows]
        hidden = [
            hide(own, self.recipe, self.vocabulary, self.seed, row["place"]) for own, row in zip(ids, rows, strict=True)
        ]
        shown, labels = (torch.from_numpy(np.stack(each)) for each in zip(*hidden, strict=True))
        sentence = torch.from_numpy(np.cumsum(np.stack(ids) == START, axis=1))
        return {"input_ids": shown, "labels": labels, "attention_mask": within_sentences(sentence, self.attention)}
