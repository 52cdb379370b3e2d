"""A second encoder that is trained beside the student, from the same start (Contrastive Tension).

Carlsson et al., ICLR 2021, Sec. 3. https://openreview.net/forum?id=Ov_sMNau-PF
"""

from copy import deepcopy
from typing import Any

from torch import Tensor

from isotrope.contract.context import BuildContext, WithState
from isotrope.contract.distributed import averaged
from isotrope.contract.features import read_in_parts


class Trained(WithState):
    """Token ids (N, L) -> (N, D), with weights of its own. BibTeX: carlsson2021tension.

    It is trained and saved with the objective. The model that the run gives is the student.
    """

    stage = "peers"

    def begin(self, context: BuildContext) -> None:
        self.encoder = deepcopy(context.needed("student")).train()  # dropout included
        averaged(self.encoder)

    def forward(self, features: dict[str, Any], size: int | None = None) -> Tensor:
        """``size`` rows at a time; None: all."""
        return read_in_parts(self.encoder, features, size)[0]
