"""A sentence's negation by rules on English tokens: nearly the same words, not the same meaning (SNCSE).

Wang and Dou, ICIC 2023, Sec. 3.1. https://arxiv.org/abs/2201.05979
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from isotrope.contract.context import BuildContext
from isotrope.encoder.pooling import frame_size
from isotrope.errors import UserError
from isotrope.tokens._inner import per_token

NOT = "not"
AUXILIARIES = "am is are was were can could will would shall should may might must do does did has have had"


def negate(
    input_ids: Tensor,  # (N, L)
    attention_mask: Tensor,  # (N, L)
    frame: tuple[int, int],  # tokens before the text and behind it
    auxiliaries: Tensor,  # (A,) ids
    negations: Tensor,  # (B,) ids of "not"; the first is put in
) -> tuple[Tensor, Tensor]:
    """The first "not" goes. Without one, it comes behind the first auxiliary, or first of all. (N, L) -> (N, L + 1)."""
    count, (before, behind) = attention_mask.sum(dim=1, keepdim=True), frame
    start = attention_mask.argmax(dim=1, keepdim=True)  # (N, 1) the column of the first real token
    place = torch.arange(input_ids.shape[1] + 1, device=input_ids.device).expand(len(input_ids), -1)  # (N, L + 1)
    ids = input_ids.gather(1, (start + place).clamp(max=input_ids.shape[1] - 1))  # real tokens first
    text = (place >= before) & (place < count - behind)
    said, helped = (text & torch.isin(ids, which) for which in (negations, auxiliaries))
    gone = said.any(dim=1, keepdim=True)
    first = torch.where(helped.any(dim=1, keepdim=True), _first(helped) + 1, before)
    at = torch.where(gone, _first(said), first)  # (N, 1) where a token goes, or comes
    moved = place + torch.where(gone, (place >= at).long(), -(place > at).long())
    made = ids.gather(1, moved.clamp(max=place.shape[1] - 1)).where(gone | (place != at), negations[0])
    real = place < count + torch.where(gone, -1, 1)
    return made * real, real.to(attention_mask)


def _first(marks: Tensor) -> Tensor:
    return marks.long().argmax(dim=1, keepdim=True)


@dataclass(eq=False, repr=False)
class Negate:
    """Makes "it is not old" of "it is old", and back. English alone. BibTeX: wang2023sncse.

    The paper reads the verb from a parser, and knows "does not". Here a text without an auxiliary begins with "not".
    A text may become one token longer. One of ``max_length`` tokens stays as it is: encoders have so many positions.
    """

    stage = "tokens"

    max_length: Annotated[int, Field(ge=3)] = 512
    frame: tuple[int, int] = field(init=False)
    auxiliaries: list[int] = field(init=False)
    negations: list[int] = field(init=False)

    def build(self, context: BuildContext) -> Self:
        made, tokenizer = replace(self), context.needed("tokenizer")
        made.frame, made.negations = frame_size(tokenizer), _ids(tokenizer, NOT)
        made.auxiliaries = [id for word in AUXILIARIES.split() for id in _ids(tokenizer, word)]
        if not made.negations:
            problem = "tokens.negate: the student's tokenizer has no token for the word not"
            raise UserError(problem, "give negations in a column: --negative COLUMN, and terms.soft.view=0")
        return made

    def __call__(self, features: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        ids, mask = features["input_ids"], features["attention_mask"]
        known = (torch.tensor(each, dtype=torch.long, device=ids.device) for each in (self.auxiliaries, self.negations))
        negated = negate(ids, mask, self.frame, *known)
        made = {**features, **{name: F.pad(value, (0, 1)) for name, value in per_token(features).items()}}
        full = mask.sum(dim=1, keepdim=True) >= self.max_length
        for name, values in zip(("input_ids", "attention_mask"), negated, strict=True):
            made[name] = torch.where(full, made[name], values)
        return made


def _ids(tokenizer: Any, word: str) -> list[int]:
    """The ids of a word that is one token: behind another word, alone, and with a capital."""
    found = list[int]()
    lead = tokenizer.encode("a", add_special_tokens=False)
    for text, rest in ((f"a {word}", lead), (word, []), (word.capitalize(), [])):
        ids = tokenizer.encode(text, add_special_tokens=False)
        found += ids[len(rest) :] if len(ids) == len(rest) + 1 else []
    return [id for id in dict.fromkeys(found) if id != tokenizer.unk_token_id]
