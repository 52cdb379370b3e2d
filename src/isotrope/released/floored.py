"""RankCSE's ListMLE as the community's code computes it (the authors released none).

The paper (Liu et al., ACL 2023, Eq. 5; https://aclanthology.org/2023.acl-long.771) adds nothing within the logarithm:
``terms/listmle.py``.
"""

from torch import Tensor

from isotrope.terms.listmle import ListMLE, in_order


def floored_listmle(cosines: Tensor, teacher: Tensor, temperature: float, drop_positive: bool = False) -> Tensor:
    """Σ_k log(1e-7 + Σ_{l ≥ k} e^{s_π(l) - m}) - (s_π(k) - m), m = max s, s = S_i / τ; mean over anchors, positives.

    (N, N) or (P, N, N), teacher (N, N) -> (). Once all that is left of a list is 16 below its maximum, the order of the
    rest hardly counts: at τ = 0.05, these are cosines lower by 0.8.
    """
    ranked = in_order(cosines, teacher, drop_positive) / temperature
    ranked = ranked - ranked.amax(dim=-1, keepdim=True)
    rest = ranked.exp().flip(-1).cumsum(dim=-1).flip(-1)
    return ((rest + 1e-7).log() - ranked).sum(dim=-1).mean()


class Floored(ListMLE):
    """For comparison with runs of the community's code. BibTeX: liu2023rankcse."""

    def of_lists(self, student: Tensor, teacher: Tensor) -> Tensor:
        drop = self.drop_positive and not self.queue
        return self.weight * floored_listmle(student, teacher, self.temperature, drop)
