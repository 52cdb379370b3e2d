"""Words hidden from the student in BERT's way, for a term that asks for them (`isotrope.terms.masked_words`).

Devlin et al., NAACL 2019, Sec. 3.1. https://aclanthology.org/N19-1423
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from isotrope.contract.context import Begun, BuildContext
from isotrope.contract.hiding import Hiding
from isotrope.types import Fraction


@dataclass(eq=False, repr=False)
class Hide(Begun):
    """Each token is hidden with probability ``ratio``, special ones apart. BibTeX: devlin2019bert.

    Of the hidden tokens, 80 % are shown as [MASK], 10 % as another token, 10 % as they are. Further columns of texts,
    behind the positive, are read whole.
    """

    stage = "tokens"
    anchors_alone = True
    ratio: Fraction = 0.15

    def begin(self, context: BuildContext) -> None:
        self.hiding = Hiding(context.needed("tokenizer"), self.ratio)

    def __call__(self, features: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        ids = features["input_ids"]
        noise = torch.rand(*ids.shape, 3, generator=generator).to(ids.device)
        return {**features, "input_ids": self.hiding(ids, features["attention_mask"], noise)[1]}
