"""ListNet: the student's top-one probabilities follow the teacher's (RankCSE Eq. 4).

Liu et al., ACL 2023, Sec. 4.4, https://aclanthology.org/2023.acl-long.771, after Cao et al., ICML 2007.
"""

from dataclasses import dataclass

from torch import Tensor

from isotrope.terms._queue import ListTerm, without_positive
from isotrope.types import AboveZero, NonNegative, Whole


def listnet(
    cosines: Tensor,  # (N, N) or (P, N, N): the student's; over a queue (N, K)
    teacher: Tensor,  # (N, N), or (N, K)
    temperature: float,
    teacher_temperature: float,
    drop_positive: bool = True,
) -> Tensor:
    """-Σ_j softmax_j(S^T_ij / τ₃) · log softmax_j(S_ij / τ₂), mean over anchors i and positives -> ().

    With ``drop_positive`` the diagonal leaves both lists (footnote 1): the positive takes nearly all of the teacher's
    probability, and nothing would be said about the others.
    """
    if drop_positive:
        cosines, teacher = without_positive(cosines), without_positive(teacher)
    target = (teacher / teacher_temperature).softmax(dim=-1)
    return -(target * (cosines / temperature).log_softmax(dim=-1)).sum(dim=-1).mean()


@dataclass(frozen=True)
class ListNet(ListTerm):
    """Learn the teacher's distribution over the batch; ``weight`` is γ of Eq. 6. BibTeX: liu2023rankcse.

    The temperatures τ₂ and τ₃ are those of Table 9 for BERT-base. ``queue``: the list of a sentence is not its batch,
    but so many texts of earlier batches, among which is no positive (`isotrope.terms._queue.OverQueue`). Over a queue,
    `isotrope.terms.queue_kl` has the same gradient.
    """

    stage = "terms"
    teacher: str
    temperature: AboveZero = 0.025
    teacher_temperature: AboveZero = 0.0125
    weight: NonNegative = 1.0
    drop_positive: bool = True
    queue: Whole = 0  # the batch

    def of_lists(self, student: Tensor, teacher: Tensor) -> Tensor:
        return self.weight * listnet(student, teacher, self.temperature, self.teacher_temperature, drop_positive=False)
