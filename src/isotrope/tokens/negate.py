"""SNCSE's negation, by rules on English tokens (Wang and Dou, 2023, Sec. 3.1).
https://arxiv.org/abs/2201.05979
"""

from dataclasses import dataclass
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from isotrope.contract.context import Buildable, BuildContext
from isotrope.encoder.pooling import frame_size
from isotrope.errors import UserError
from isotrope.tokens._inner import copies, inside, per_token

NOT = "not"
AUXILIARIES = (
    "am is are was were can could will would shall should may might must do does did has have had"
)


def negate(
    features: dict[str, Tensor],  # (N, L) token ids, mask, …
    frame: tuple[int, int],  # tokens before the text and behind it
    max_length: int,
    auxiliaries: Tensor,  # (A,) ids
    negations: Tensor,  # (B,) ids of "not"; the first is put in
) -> dict[str, Tensor]:
    """The first "not" goes. Without one, it comes behind the first auxiliary, or first of all. ->
    (N, L') each.
    """
    features = dict(features)
    for name, value in per_token(features).items():
        features[name] = F.pad(value, (0, 1))
    ids = features["input_ids"]
    mask = features["attention_mask"]
    is_not = inside(mask, *frame) & torch.isin(ids, negations)
    is_auxiliary = inside(mask, *frame) & torch.isin(ids, auxiliaries)

    # Where a token goes, or comes: (N, 1) each.
    start = _first(mask)
    after_frame = start + frame[0]
    goes = is_not.any(dim=1, keepdim=True)
    has_auxiliary = is_auxiliary.any(dim=1, keepdim=True)
    comes_at = torch.where(has_auxiliary, _first(is_auxiliary) + 1, after_frame)
    at = torch.where(goes, _first(is_not), comes_at)
    change = torch.where(goes, -1, 1) * (mask.sum(dim=1, keepdim=True) < max_length)

    # The padding at the left is gone afterwards.
    changed = copies(features, mask.scatter_add(1, at, change))
    at = (at - start).clamp(max=changed["input_ids"].shape[1] - 1)
    token = torch.where(change > 0, negations[0], changed["input_ids"].gather(1, at))
    return {**changed, "input_ids": changed["input_ids"].scatter(1, at, token)}


def _first(marks: Tensor) -> Tensor:
    """The column of each row's first mark; 0 without one. (N, L) -> (N, 1)."""
    return marks.long().argmax(dim=1, keepdim=True)


@dataclass(eq=False, repr=False)
class Negate(Buildable):
    """Makes "it is not old" of "it is old", and back. English alone. BibTeX: wang2023sncse.

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
            raise UserError(problem, remedy, "no-token-for-not")

    def __call__(
        self, features: dict[str, Tensor], generator: torch.Generator
    ) -> dict[str, Tensor]:
        ids = features["input_ids"]
        auxiliaries = ids.new_tensor(self.auxiliaries)
        negations = ids.new_tensor(self.negations)
        return negate(features, self.frame, self.max_length, auxiliaries, negations)


def _ids(tokenizer: Any, word: str) -> list[int]:
    """The ids of a word that is one token: behind another word, alone, and with a capital."""
    lead = tokenizer.encode("a", add_special_tokens=False)
    forms: list[int] = []
    for text, lead_count in ((f"a {word}", len(lead)), (word, 0), (word.capitalize(), 0)):
        ids = tokenizer.encode(text, add_special_tokens=False)
        if len(ids) == lead_count + 1:
            forms.append(ids[-1])
    return [id for id in dict.fromkeys(forms) if id != tokenizer.unk_token_id]
