"""WhitenedCSE's whitening as its released code differentiates it: the matrices carry no gradient.

The paper (Zhuo et al., ACL 2023, Sec. 3.2; https://aclanthology.org/2023.acl-long.677) does not detach them:
``views/sgw.py``.
"""

from torch import Tensor

from isotrope.views.sgw import SGW


class Detach(SGW):
    """Only the centred features carry a gradient. BibTeX: zhuo2023whitenedcse."""

    def whitening(self, covariance: Tensor) -> Tensor:
        return super().whitening(covariance).detach()
