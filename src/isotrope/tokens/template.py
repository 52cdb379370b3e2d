"""PromptBERT's templates (Jiang et al., EMNLP 2022, Sec. 4.2–4.3).
https://aclanthology.org/2022.emnlp-main.603
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.contract.context import Buildable, BuildContext
from isotrope.encoder.pooling import frame_ids, frame_size
from isotrope.tokens._inner import copies, inside, per_token


def reframe(
    features: dict[str, Tensor], text: Tensor, before: Tensor, behind: Tensor
) -> dict[str, Tensor]:
    """Token ids, mask, … (N, L) with the ids ``before`` (A,) and ``behind`` (B,) around each text
    -> (N, L') each.

    ``text`` (N, L) bool is what is not the old frame. All begin at the left; L' is that of the
    longest.
    """
    frame = (len(before), len(behind))
    wide = dict(features)
    for name, value in per_token(features).items():
        wide[name] = F.pad(value, frame)
    count = len(text)
    ids = [before.expand(count, -1), features["input_ids"], behind.expand(count, -1)]
    wide["input_ids"] = torch.cat(ids, dim=1)
    times = F.pad(text.long(), frame, value=1)
    return copies(wide, times)


@dataclass(eq=False, repr=False)
class Template(Buildable):
    """The words around a text, with the text or without it. BibTeX: jiang2022promptbert."""

    stage = "tokens"
    # such as 'This sentence of "{text}" means {mask}.'; "": what the tokenizer puts there
    words: str = ""
    hidden: bool = True  # no token sees the text, and what is left is what the words alone say

    def begin(self, context: BuildContext) -> None:
        tokenizer = context.needed("tokenizer")
        self.old = frame_size(tokenizer)
        self.new = frame_ids(tokenizer, self.words) if self.words else None

    def __call__(
        self, features: dict[str, Tensor], generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Put the template around each text, in place of the tokenizer's own tokens. If ``hidden``,
        attention leaves the text out, so that only the template is read. Nothing is drawn.
        """
        frame = self.old
        if self.new is not None:
            ids_before, ids_behind = self.new
            text = inside(features["attention_mask"], *frame)
            before = features["input_ids"].new_tensor(ids_before)
            behind = features["input_ids"].new_tensor(ids_behind)
            features = reframe(features, text, before, behind)
            frame = (len(before), len(behind))
        if not self.hidden:
            return features

        mask = features["attention_mask"]
        text = inside(mask, *frame)
        return {**features, "attention_mask": mask.masked_fill(text, 0)}
