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
from isotrope.tokens._inner import Features, inner, random_order
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

    def __call__(self, features: Features, generator: torch.Generator) -> Features:
        ids = features["input_ids"]
        noise = torch.rand(*ids.shape, 3, generator=generator)  # on the CPU
        noise = noise.to(ids.device)
        _, shown_ids = self.hiding(ids, features["attention_mask"], noise)
        return {**features, "input_ids": shown_ids}


def phrases(content: Tensor, longest: int) -> Tensor:
    """Number the phrases of each sentence from 1; other tokens get 0: (N, L) bool -> (N, L).

    A phrase is a run of at most ``longest`` tokens of ``content``.
    """
    columns = torch.arange(content.shape[1], device=content.device)
    columns = columns.expand_as(content)  # (N, L)
    other_columns = columns.masked_fill(content, -1)
    last_other = other_columns.cummax(dim=1).values  # up to here

    place_in_run = columns - last_other - 1
    begins = place_in_run % longest == 0
    number = (content & begins).cumsum(dim=1)
    return number * content


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
        self.breaks, self.continues = _kinds(tokenizer)

    def __call__(self, features: Features, generator: torch.Generator) -> Features:
        ids = features["input_ids"]
        content = self.content(ids, inner(features))
        numbers = phrases(content, self.longest)  # (N, L)

        # Draw a token that is in a phrase, if there is one, and hide its whole phrase.
        in_phrase = numbers > 0
        order = random_order(in_phrase, generator)
        drawn_token = order[:, :1]  # (N, 1)
        drawn_number = numbers.gather(1, drawn_token)
        hidden = in_phrase & (numbers == drawn_number)
        shown_ids = ids.masked_fill(hidden, self.mask_id)
        return {**features, "input_ids": shown_ids}

    def content(self, ids: Tensor, among: Tensor) -> Tensor:
        """Which of the tokens ``among`` may be in a phrase: (N, L), (N, L) bool -> (N, L) bool.

        Stop words and punctuation end a phrase, unless the token is a part of a longer word.
        """
        is_break = self.breaks.to(ids.device)[ids]
        continues = self.continues.to(ids.device)[ids]

        # A text begins with the first part of a word.
        has_token_before = F.pad(among[:, :-1], (1, 0))
        continues = continues & among & has_token_before
        is_continued = F.pad(continues[:, 1:], (0, 1))
        is_part = continues | is_continued
        may_be_in_phrase = ~is_break | is_part
        return among & may_be_in_phrase


def _kinds(tokenizer: Any) -> tuple[Tensor, Tensor]:
    """For each token (W,) bool: is it a stop word or punctuation; does it continue a word?"""
    token_ids = list(range(len(tokenizer)))
    tokens = [str(token) for token in tokenizer.convert_ids_to_tokens(token_ids)]
    words = [token.removeprefix("##").lstrip("Ġ▁") for token in tokens]
    has_letters = torch.tensor([any(map(str.isalnum, word)) for word in words])
    is_stop_word = torch.tensor([word.lower() in ENGLISH_STOP_WORDS for word in words])
    breaks = ~has_letters | is_stop_word

    continues = torch.tensor([token.startswith("##") for token in tokens])
    begins = torch.tensor([token.startswith(("Ġ", "▁")) for token in tokens])

    # Other tokenizers mark the first part of a word, or nothing.
    if begins.any() and not continues.any():
        continues = has_letters & ~begins
    return breaks, continues
