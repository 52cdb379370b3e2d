"""SNCSE's negation, by rules on English tokens (Wang and Dou, 2023, Sec. 3.1).
https://arxiv.org/abs/2201.05979
"""

from dataclasses import dataclass
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from isotrope.contract.context import Begun, BuildContext
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
    features = {
        **features,
        **{name: F.pad(value, (0, 1)) for name, value in per_token(features).items()},
    }
    ids, mask = features["input_ids"], features["attention_mask"]
    said, helped = (
        inside(mask, *frame) & torch.isin(ids, which) for which in (negations, auxiliaries)
    )
    # (N, 1) each
    start, place, behind = (
        marks.long().argmax(dim=1, keepdim=True) for marks in (mask, said, helped)
    )
    gone = said.any(dim=1, keepdim=True)
    first = torch.where(helped.any(dim=1, keepdim=True), behind + 1, start + frame[0])
    at = torch.where(gone, place, first)  # (N, 1) where a token goes, or comes
    change = torch.where(gone, -1, 1) * (mask.sum(dim=1, keepdim=True) < max_length)
    made = copies(features, mask.scatter_add(1, at, change))
    # behind the padding at the left, which is gone
    at = (at - start).clamp(max=made["input_ids"].shape[1] - 1)
    put = torch.where(change > 0, negations[0], made["input_ids"].gather(1, at))
    return {**made, "input_ids": made["input_ids"].scatter(1, at, put)}


@dataclass(eq=False, repr=False)
class Negate(Begun):
    """Makes "it is not old" of "it is old", and back. English alone. BibTeX: wang2023sncse.

    The paper reads the verb from a parser, and knows "does not". Here a text without an auxiliary
    begins with "not". A text may become one token longer. One of ``max_length`` tokens stays as it
    is: encoders have so many positions.
    """

    stage = "tokens"
    max_length: Annotated[int, Field(ge=3)] = 512

    def begin(self, context: BuildContext) -> None:
        tokenizer = context.needed("tokenizer")
        self.frame, self.negations = frame_size(tokenizer), _ids(tokenizer, NOT)
        self.auxiliaries = [id for word in AUXILIARIES.split() for id in _ids(tokenizer, word)]
        if not self.negations:
            problem = "tokens.negate: the student's tokenizer has no token for the word not"
            raise UserError(
                problem, "give negations in a column: --negative COLUMN, and terms.soft.view=0"
            )

    def __call__(
        self, features: dict[str, Tensor], generator: torch.Generator
    ) -> dict[str, Tensor]:
        known = (
            features["input_ids"].new_tensor(each) for each in (self.auxiliaries, self.negations)
        )
        return negate(features, self.frame, self.max_length, *known)


def _ids(tokenizer: Any, word: str) -> list[int]:
    """The ids of a word that is one token: behind another word, alone, and with a capital."""
    found = list[int]()
    lead = tokenizer.encode("a", add_special_tokens=False)
    for text, rest in ((f"a {word}", lead), (word, []), (word.capitalize(), [])):
        ids = tokenizer.encode(text, add_special_tokens=False)
        found += ids[len(rest) :] if len(ids) == len(rest) + 1 else []
    return [id for id in dict.fromkeys(found) if id != tokenizer.unk_token_id]
