"""RankCSE's ranking losses as the community's code computes them (the authors released none).

The paper (https://aclanthology.org/2023.acl-long.771) has Jensen and Shannon's divergence in Eq. 2,
and adds nothing within the logarithm of Eq. 5.
"""

import math

from torch import Tensor

from isotrope.terms.consistency import Consistency
from isotrope.terms.listmle import ListMLE, in_order
from isotrope.types import Scores

LEAST = math.log(1e-7)  # of a log-probability


def clamped_consistency(cosines: Tensor, temperature: float) -> Tensor:
    """½ Σ_j P_ij (log P_ij - 1e-7) + Q_ij (log Q_ij - 1e-7), mean over anchors, positives. (N, N)
    or (P, N, N) -> ().

    Probabilities below 1e-7 are raised to it. The logarithm of the mixture (P + Q) / 2 is never
    above 0, and the code clamps it to at least 1e-7: a constant. What is left rewards entropy in
    both lists, whether they agree or not.
    """
    p = (cosines / temperature).log_softmax(dim=-1).clamp(min=LEAST)  # log P
    q = (cosines.mT / temperature).log_softmax(dim=-1).clamp(min=LEAST)  # log Q
    from_p = p.exp() * (p - 1e-7)
    from_q = q.exp() * (q - 1e-7)
    return (from_p + from_q).sum(dim=-1).mean() / 2


def floored_listmle(cosines: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Σ_k log(1e-7 + Σ_{l ≥ k} e^{s_π(l) - m}) - (s_π(k) - m), m = max s, s = S_i / τ; mean over
    anchors, positives.

    (N, N) or (P, N, N), teacher (N, N) -> (). Once all that is left of a list is 16 below its
    maximum, the order of the rest hardly counts: at τ = 0.05, these are cosines lower by 0.8.
    """
    ranked = in_order(cosines, teacher) / temperature
    ranked = ranked - ranked.amax(dim=-1, keepdim=True)
    remaining = ranked.exp().flip(-1).cumsum(dim=-1).flip(-1)
    return ((remaining + 1e-7).log() - ranked).sum(dim=-1).mean()


class Clamped(Consistency):
    """`clamped_consistency`, for comparison with runs of the community's code. BibTeX:
    liu2023rankcse.
    """

    def __call__(self, scores: Scores) -> Tensor:
        return self.weight * clamped_consistency(scores.pairs, self.temperature)


class Floored(ListMLE):
    """`floored_listmle`, to compare with runs of the community's code. BibTeX: liu2023rankcse."""

    def of_lists(self, student: Tensor, teacher: Tensor) -> Tensor:
        return self.weight * floored_listmle(student, teacher, self.temperature)
