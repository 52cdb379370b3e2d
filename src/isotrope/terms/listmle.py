"""ListMLE (RankCSE Eq. 5, after Xia et al., ICML 2008).
https://aclanthology.org/2023.acl-long.771
"""

from dataclasses import dataclass

from torch import Tensor

from isotrope.terms._queue import ListTerm, without_positive
from isotrope.types import AboveZero, NonNegative, Whole


def listmle(
    cosines: Tensor,  # (N, N) or (P, N, N): the student's; over a queue (N, K)
    teacher: Tensor,  # (N, N), or (N, K)
    temperature: float,
    drop_positive: bool = False,
) -> Tensor:
    """-Σ_k log e^{s_π(k)} / Σ_{l ≥ k} e^{s_π(l)}, s = S_i / τ₂; sum over ranks k, mean over
    anchors, positives -> ().

    π is the teacher's order of anchor i's list, the most similar first; nothing else of the teacher
    counts. What it scores equally keeps the order of the columns. ``drop_positive`` takes the
    diagonal out of both lists.
    """
    if drop_positive:
        cosines = without_positive(cosines)
        teacher = without_positive(teacher)
    ranked = in_order(cosines, teacher) / temperature
    from_last = ranked.flip(-1)
    remaining = from_last.logcumsumexp(dim=-1).flip(-1)  # log Σ over what is not yet placed
    losses = (remaining - ranked).sum(dim=-1)  # of each list
    return losses.mean()


def in_order(cosines: Tensor, teacher: Tensor) -> Tensor:
    """The student's lists, each in the teacher's order. As `listmle` -> (…, N, M)."""
    order = teacher.argsort(dim=-1, descending=True, stable=True)  # (N, M)
    return cosines.gather(-1, order.expand_as(cosines))


@dataclass(frozen=True)
class ListMLE(ListTerm):
    """The likelihood, under the student, of the teacher's ranking; ``weight`` is γ of Eq. 6.
    BibTeX: liu2023rankcse.
    """

    teacher: str
    temperature: AboveZero = 0.05
    weight: NonNegative = 1.0
    drop_positive: bool = False
    # so many texts of earlier batches are ranked, and the loss grows with them; 0: the batch
    queue: Whole = 0

    def of_lists(self, student: Tensor, teacher: Tensor) -> Tensor:
        return self.weight * listmle(student, teacher, self.temperature)
