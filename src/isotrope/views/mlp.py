"""The training-only head of SimCSE: Linear + Tanh on the sentence embedding (Gao et al., EMNLP
2021, Sec. 6.3).
"""

from dataclasses import dataclass, replace

from torch import nn

from isotrope.contract.context import BuildContext, StatefulComponent
from isotrope.contract.layers import as_new
from isotrope.encoder.pooling import dense
from isotrope.types import NonNegative, Views


@dataclass(eq=False, repr=False)
class MLP(StatefulComponent):
    """(V, N, D) -> (V, N, D), thrown away after training unless ``train.keep_head``. BibTeX:
    gao2021simcse.

    It starts as BERT's new layers: weights from N(0, ``std``²), bias 0. (torch's default bias would
    give all sentences a common direction where embeddings are short, as normalised ones are.)
    """

    stage = "views"
    std: NonNegative = 0.02

    def begin(self, context: BuildContext) -> None:
        width = context.needed("width")
        self.linear = as_new(nn.Linear(width, width), self.std)

    def layers(self) -> list[nn.Module]:
        """The head as it is now, for a model that keeps it."""
        layer = dense(self.linear.weight, self.linear.bias, nn.Tanh())
        return [layer]

    def forward(self, views: Views) -> Views:
        return replace(
            views,
            stack=self.linear(views.stack).tanh(),
            negatives=self.linear(views.negatives).tanh(),
        )
