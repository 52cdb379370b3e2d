"""Other words around the text, or no text between the words (PromptBERT's second template and its denoising).

Jiang et al., EMNLP 2022, Sec. 4.2–4.3. https://aclanthology.org/2022.emnlp-main.603
"""

from dataclasses import dataclass, field, replace
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.contract.context import BuildContext
from isotrope.encoder.pooling import frame_ids, frame_size
from isotrope.tokens._inner import per_token


def hide_text(attention_mask: Tensor, before: int, behind: int) -> Tensor:
    """Attention 0 for all real tokens but the first ``before`` and the last ``behind``. (N, L) -> (N, L)."""
    number = attention_mask.cumsum(dim=1)  # of real tokens up to here
    text = (number > before) & (number <= number[:, -1:] - behind)
    return attention_mask.masked_fill(text, 0)


def reframe(
    input_ids: Tensor,  # (N, L)
    attention_mask: Tensor,  # (N, L)
    old: tuple[int, int],  # tokens before the text and behind it
    new: tuple[Tensor, Tensor],  # their ids, (A,) and (B,)
) -> tuple[Tensor, Tensor]:
    """Other tokens around each text -> ids and mask (N, L'), real tokens first; L' = L − the old frame + the new."""
    (before, behind), (first, last) = old, new
    count = attention_mask.sum(dim=1, keepdim=True) - before - behind  # (N, 1) of the text
    width = input_ids.shape[1] - before - behind + len(first) + len(last)
    place = torch.arange(width, device=input_ids.device).expand(len(input_ids), -1)  # (N, L')
    start = attention_mask.argmax(dim=1, keepdim=True) + before  # (N, 1) the column of the text's first token
    ids = input_ids.gather(1, (start + place - len(first)).clamp(0, input_ids.shape[1] - 1))
    ids = torch.where(place < len(first), first[place.clamp(max=len(first) - 1)], ids)
    after = place - len(first) - count  # places counted from the end of the text
    ids = torch.where(after >= 0, last[after.clamp(0, len(last) - 1)], ids)
    real = after < len(last)
    return ids * real, real.to(attention_mask)


@dataclass(eq=False, repr=False)
class Template:
    """The words around a text, with the text or without it. BibTeX: jiang2022promptbert.

    Args:
        words: such as 'This sentence of "{text}" means {mask}.'; "" leaves what the tokenizer puts there.
        hidden: whether no token sees the text. What is left is what the words alone say.
    """

    stage = "tokens"

    words: str = ""
    hidden: bool = True
    old: tuple[int, int] = field(init=False)
    new: tuple[list[int], list[int]] | None = field(init=False)

    def build(self, context: BuildContext) -> Self:
        made, tokenizer = replace(self), context.needed("tokenizer")
        made.old, made.new = frame_size(tokenizer), frame_ids(tokenizer, self.words) if self.words else None
        return made

    def __call__(self, features: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        made, (before, behind) = dict(features), self.old
        if self.new is not None:
            ids = features["input_ids"]
            first, last = (torch.tensor(part, device=ids.device) for part in self.new)
            framed = reframe(ids, features["attention_mask"], self.old, (first, last))
            before, behind, wider = len(first), len(last), framed[0].shape[1] - ids.shape[1]
            made |= {name: F.pad(value, (0, wider)) for name, value in per_token(features).items()}
            made["input_ids"], made["attention_mask"] = framed
        if self.hidden:
            made["attention_mask"] = hide_text(made["attention_mask"], before, behind)
        return made
