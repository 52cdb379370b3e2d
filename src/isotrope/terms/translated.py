"""NT-Xent of a sentence and its translation there and back, behind SG-OPT's projector: "Contrastive (BT)".

Kim et al., ACL 2021, Sec. 4, after Fang and Xie, 2020. https://aclanthology.org/2021.acl-long.197
"""

from torch import Tensor

from isotrope.terms.nt_xent import nt_xent
from isotrope.terms.self_guided import SelfGuided


class Translated(SelfGuided):
    """`nt_xent` of the data's texts and positives, both projected. BibTeX: kim2021selfguided.

    The translations are the user's, in a column of positives. ``drift`` and ``size`` are as in
    `isotrope.terms.self_guided`.
    """

    needs_positives = True

    def contrast(self, stack: Tensor) -> Tensor:
        return nt_xent(stack[0], stack[1], self.temperature)
