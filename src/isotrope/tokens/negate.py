"""SNCSE's negation, by rules on English tokens (Wang and Dou, 2023, Sec. 3.1).
https://arxiv.org/abs/2201.05979
"""

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from isotrope.contract.context import Buildable, BuildContext
from isotrope.encoder.pooling import frame_size
from isotrope.errors import UserError
from isotrope.tokens._inner import Features, copies, inside, padded, row_counts

NOT = "not"
AUXILIARIES = (
    "am is are was were can could will would shall should may might must do does did has have had"
)


def negate(
    features: Features,  # (N, L) token ids, mask, …
    frame: tuple[int, int],  # tokens before the text and after it
    max_length: int,
    auxiliaries: Tensor,  # (A,) ids
    negations: Tensor,  # (B,) ids of "not"; the first is put in
) -> Features:
    """Delete the first "not". Without one, insert it after the first auxiliary, or at the start of
    the text.

    -> (N, L') each. A text of ``max_length`` tokens stays as it is.
    """
    features = padded(features, 0, 1)  # a text may grow by a token
    ids = features["input_ids"]
    mask = features["attention_mask"]
    in_text = inside(mask, *frame)
    is_not = in_text & torch.isin(ids, negations)
    is_auxiliary = in_text & torch.isin(ids, auxiliaries)

    # Where a token is deleted, or inserted: (N, 1) each.
    start = _first(mask)
    has_not = is_not.any(dim=1, keepdim=True)
    has_auxiliary = is_auxiliary.any(dim=1, keepdim=True)
    after_auxiliary = _first(is_auxiliary) + 1
    after_frame = start + frame[0]
    new_place = torch.where(has_auxiliary, after_auxiliary, after_frame)
    place = torch.where(has_not, _first(is_not), new_place)

    # The token there is said once less, or once more.
    has_room = row_counts(mask) < max_length
    change = torch.where(has_not, -1, 1) * has_room
    times = mask.scatter_add(1, place, change)
    changed = copies(features, times)

    # The padding at the left is gone now.
    ids = changed["input_ids"]
    last_column = ids.shape[1] - 1
    place = (place - start).clamp(max=last_column)
    old_token = ids.gather(1, place)
    token = torch.where(change > 0, negations[0], old_token)
    return {**changed, "input_ids": ids.scatter(1, place, token)}


def _first(marks: Tensor) -> Tensor:
    """The column of each row's first mark; 0 without one. (N, L) -> (N, 1)."""
    return marks.long().argmax(dim=1, keepdim=True)


@dataclass(eq=False, repr=False)
class Negate(Buildable):
    """Makes "it is not old" of "it is old", and back. English only. BibTeX: wang2023sncse.

    The paper reads the verb from a parser, and knows "does not". Here a text without an auxiliary
    begins with "not". A text may become one token longer. One of ``max_length`` tokens stays as it
    is: encoders have so many positions.
    """

    stage = "tokens"
    max_length: Annotated[int, Field(ge=3)] = 512

    def begin(self, context: BuildContext) -> None:
        tokenizer = context.needed("tokenizer")
        self.frame = frame_size(tokenizer)
        self.negations = _ids(tokenizer, NOT)
        self.auxiliaries: list[int] = []
        for word in AUXILIARIES.split():
            self.auxiliaries += _ids(tokenizer, word)
        if not self.negations:
            problem = "tokens.negate: the student's tokenizer has no token for the word not"
            remedy = "give negations in a column: --negative COLUMN, and terms.soft.view=0"
            raise UserError(problem, remedy, code="no-token-for-not")

    def __call__(self, features: Features, generator: torch.Generator) -> Features:
        ids = features["input_ids"]
        auxiliaries = ids.new_tensor(self.auxiliaries)
        negations = ids.new_tensor(self.negations)
        return negate(features, self.frame, self.max_length, auxiliaries, negations)


def _ids(tokenizer: Any, word: str) -> list[int]:
    """The ids of a word that is one token: after another word, alone, and with a capital."""
    count_before = len(tokenizer.encode("a", add_special_tokens=False))
    other_tokens = {
        f"a {word}": count_before,
        word: 0,
        word.capitalize(): 0,
    }
    token_ids: list[int] = []
    for text, count in other_tokens.items():
        ids = tokenizer.encode(text, add_special_tokens=False)
        is_one_token = len(ids) == count + 1
        if is_one_token and ids[-1] != tokenizer.unk_token_id:
            token_ids.append(ids[-1])
    return list(dict.fromkeys(token_ids))
