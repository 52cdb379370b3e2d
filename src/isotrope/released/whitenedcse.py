"""WhitenedCSE's whitening as its released code differentiates it, which Sec. 3.2 of the paper does
not.
"""

from torch import Tensor

from isotrope.views.sgw import SGW


class Detach(SGW):
    """Only the centred features carry a gradient, no matrix. BibTeX: zhuo2023whitenedcse."""

    def whitening(self, covariance: Tensor) -> Tensor:
        return super().whitening(covariance).detach()
