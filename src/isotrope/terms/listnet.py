"""ListNet (RankCSE Eq. 4, after Cao et al., ICML 2007).
https://aclanthology.org/2023.acl-long.771
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
    """-Σ_j softmax_j(S^T_ij / τ₃) · log softmax_j(S_ij / τ₂), mean over anchors i and positives ->
    ().

    With ``drop_positive`` the diagonal leaves both lists (footnote 1): the positive takes nearly
    all of the teacher's probability, and nothing would be said about the others.
    """
    if drop_positive:
        cosines = without_positive(cosines)
        teacher = without_positive(teacher)
    target = (teacher / teacher_temperature).softmax(dim=-1)
    log_p = (cosines / temperature).log_softmax(dim=-1)
    log_likelihoods = (target * log_p).sum(dim=-1)  # of each list
    return -log_likelihoods.mean()


@dataclass(frozen=True)
class ListNet(ListTerm):
    """The student's top-one probabilities follow the teacher's; ``weight`` is γ of Eq. 6. BibTeX:
    liu2023rankcse.
    """

    teacher: str
    temperature: AboveZero = 0.025  # τ₂ and τ₃ of Table 9, for BERT-base
    teacher_temperature: AboveZero = 0.0125
    weight: NonNegative = 1.0
    drop_positive: bool = True
    # a list is so many texts of earlier batches, with the gradient of `queue_kl`; 0: the batch
    queue: Whole = 0

    def of_lists(self, student: Tensor, teacher: Tensor) -> Tensor:
        return self.weight * listnet(
            student, teacher, self.temperature, self.teacher_temperature, drop_positive=False
        )
