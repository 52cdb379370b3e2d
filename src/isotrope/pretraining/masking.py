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
    """The run's blocks in order: place i is block i of a fresh permutation for every pass over the corpus.

    The trainer reads places one after the other, so a resumed run only has to know its step. blocks (B, L) -> length
    places, each {"ids": (L,), "place": int}.
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
    how = generator.random(len(chosen))
    random_ids = generator.integers(special, vocabulary, len(chosen))
    as_random = how < recipe.masked_by_mask + recipe.masked_by_random
    new = np.where(how < recipe.masked_by_mask, special - 1, np.where(as_random, random_ids, ids[chosen]))
    shown, labels = ids.copy(), np.full(len(ids), -100, dtype=np.int64)
    shown[chosen], labels[chosen] = new, ids[chosen]
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
        pairs = [
            hide(row["ids"].astype(np.int64), self.recipe, self.vocabulary, self.seed, row["place"]) for row in rows
        ]
        ids = np.stack([row["ids"] for row in rows])  # (B, L)
        sentence = torch.from_numpy(np.cumsum(ids == START, axis=1))
        return {
            "input_ids": torch.from_numpy(np.stack([shown for shown, _ in pairs])),
            "labels": torch.from_numpy(np.stack([labels for _, labels in pairs])),
            "attention_mask": within_sentences(sentence, self.attention),
        }
