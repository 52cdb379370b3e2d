"""Words hidden from the student (https://aclanthology.org/N19-1423), or a phrase
(https://arxiv.org/abs/2210.08474).
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from torch import Tensor

from isotrope.contract.context import Buildable, BuildContext
from isotrope.contract.layers import Hiding, mask_id
from isotrope.tokens._inner import inner, random_order
from isotrope.types import Count, Fraction


@dataclass(eq=False, repr=False)
class Hide(Buildable):
    """Each token is hidden with probability ``ratio``, special ones apart. BibTeX: devlin2019bert.

    Of the hidden tokens, 80 % are shown as [MASK], 10 % as another token, 10 % as they are. Further
    columns of texts, behind the positive, are read whole.
    """

    stage = "tokens"
    anchors_alone = True
    ratio: Fraction = 0.15

    def begin(self, context: BuildContext) -> None:
        self.hiding = Hiding(context.needed("tokenizer"), self.ratio)

    def __call__(
        self, features: dict[str, Tensor], generator: torch.Generator
    ) -> dict[str, Tensor]:
        ids = features["input_ids"]
        noise = torch.rand(*ids.shape, 3, generator=generator).to(ids.device)
        return {**features, "input_ids": self.hiding(ids, features["attention_mask"], noise)[1]}


def phrases(content: Tensor, longest: int) -> Tensor:
    """Numbers the phrases, runs of at most ``longest`` tokens, from 1; 0 for other tokens. (N, L)
    bool -> (N, L).
    """
    column = torch.arange(content.shape[1], device=content.device).expand_as(content)
    # (N, L) the last token that is in none
    before = column.masked_fill(content, -1).cummax(dim=1).values
    return (content & ((column - before - 1) % longest == 0)).cumsum(dim=1) * content


@dataclass(eq=False, repr=False)
class Phrase(Buildable):
    """Each token of one phrase, of at most ``longest`` tokens, is shown as [MASK]. BibTeX:
    wu2022sentence.

    A phrase has neither stop words nor punctuation: a candidate of RAKE. The stop words are
    scikit-learn's, of English. A token is drawn, and the phrase is the one that it stands in. A
    text of stop words alone stays as it is.
    """

    stage = "tokens"
    longest: Count = 8

    def begin(self, context: BuildContext) -> None:
        tokenizer = context.needed("tokenizer")
        self.mask_id = mask_id(tokenizer)
        self.breaks, self.later = _kinds(tokenizer)

    def __call__(
        self, features: dict[str, Tensor], generator: torch.Generator
    ) -> dict[str, Tensor]:
        ids = features["input_ids"]
        number = phrases(self.content(ids, inner(features)), self.longest)  # (N, L)
        token = random_order(number > 0, generator)[:, :1]  # (N, 1) one in a phrase, if any
        chosen = (number > 0) & (number == number.gather(1, token))
        return {**features, "input_ids": ids.masked_fill(chosen, self.mask_id)}

    def content(self, ids: Tensor, among: Tensor) -> Tensor:
        """Which of these tokens (N, L) bool may be in a phrase. The first part of a longer word is
        no stop word.
        """
        breaks, later = (table.to(ids.device)[ids] for table in (self.breaks, self.later))
        # a text begins with the first part of a word
        later = later & among & F.pad(among[:, :-1], (1, 0))
        return among & ~(breaks & ~later & ~F.pad(later[:, 1:], (0, 1)))


def _kinds(tokenizer: Any) -> tuple[Tensor, Tensor]:
    """Of each token (W,) bool: is it a stop word or punctuation; does it go on with a word?"""
    tokens = [str(token) for token in tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))]
    words = [token.removeprefix("##").lstrip("Ġ▁") for token in tokens]
    letters = [any(map(str.isalnum, word)) for word in words]
    later = [token.startswith("##") for token in tokens]
    starts = [token.startswith(("Ġ", "▁")) for token in tokens]
    if any(starts) and not any(later):  # other tokenizers mark the first part of a word, or nothing
        later = [has and not start for has, start in zip(letters, starts, strict=True)]
    breaks = []
    for word, has_letters in zip(words, letters, strict=True):
        breaks.append(not has_letters or word.lower() in ENGLISH_STOP_WORDS)
    return torch.tensor(breaks), torch.tensor(later)
