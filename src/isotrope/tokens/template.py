"""PromptBERT's templates (Jiang et al., EMNLP 2022, Sec. 4.2–4.3).
https://aclanthology.org/2022.emnlp-main.603
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.contract.context import Buildable, BuildContext
from isotrope.encoder.pooling import frame_ids, frame_size
from isotrope.tokens._inner import Features, copies, inside, padded


def reframe(
    features: Features,  # (N, L) token ids, mask, …
    text: Tensor,  # (N, L) bool: what is not the old frame
    before: Tensor,  # (A,) ids
    behind: Tensor,  # (B,) ids
) -> Features:
    """The ids ``before`` and ``behind`` around each text, in place of the old frame, which are the
    tokens that stood there -> features of (N, L').

    All begin at the left; L' is the length of the longest.
    """
    ids_before = before.expand(len(text), -1)  # (N, A)
    ids_behind = behind.expand(len(text), -1)  # (N, B)
    ids = torch.cat([ids_before, features["input_ids"], ids_behind], dim=1)

    frame = (len(before), len(behind))
    wide = padded(features, *frame)
    # How often each token stays: once, but the old frame and padding not at all.
    counts = F.pad(text.long(), frame, value=1)
    return copies({**wide, "input_ids": ids}, counts)


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
        self.new = None
        if self.words:
            self.new = frame_ids(tokenizer, self.words)

    def __call__(self, features: Features, generator: torch.Generator) -> Features:
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
