"""A second encoder that is trained beside the student, from the same start (Contrastive Tension).

Carlsson et al., ICLR 2021, Sec. 3. https://openreview.net/forum?id=Ov_sMNau-PF
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from isotrope.contract.context import BuildContext
from isotrope.contract.distributed import averaged
from isotrope.contract.gradient_cache import embed_in_parts


class Trained(nn.Module):
    """Token ids (N, L) -> (N, D), with weights of its own. BibTeX: carlsson2021tension.

    It is trained and saved with the objective. The model that the run gives is the student.
    """

    stage = "peers"
    encoder: SentenceTransformer

    def __init__(self) -> None:
        super().__init__()

    def build(self, context: BuildContext) -> Trained:
        """With a copy of the student, dropout included."""
        made = Trained()
        made.encoder = deepcopy(context.needed("student"))
        averaged(made.encoder)
        return made.train()

    def forward(self, features: dict[str, Any], size: int | None = None) -> Tensor:
        """``size`` rows at a time; None: all."""
        return embed_in_parts(self.encoder, features, size)
