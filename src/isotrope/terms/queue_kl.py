"""Distillation of similarities: the student's distribution over other texts follows the teacher's.

Over a queue it is ConGen (Limkonchotiwat et al., 2022, Sec. 3,
https://aclanthology.org/2022.findings-emnlp.483), after SEED (Fang et al., 2021); over the batch
DCLR's Table 2, after Hinton et al., https://arxiv.org/abs/1503.02531.
"""

from dataclasses import dataclass

from torch import Tensor

from isotrope.terms._queue import ListTerm
from isotrope.types import AboveZero, Count, NonNegative


def queue_kl(
    student: Tensor, teacher: Tensor, temperature: float, teacher_temperature: float
) -> Tensor:
    """KL(p^T ‖ p), p^T = softmax_k(S^T_ik / τ_T) and p = softmax_k(S_ik / τ), mean over anchors i
    -> ().

    S (…, N, K) and S^T (N, K) are the cosines of the student's and the teacher's vectors with the
    queue.
    """
    log_p = (student / temperature).log_softmax(dim=-1)
    log_target = (teacher / teacher_temperature).log_softmax(dim=-1)
    return divergence(log_p, log_target)


def divergence(log_p: Tensor, log_target: Tensor) -> Tensor:
    """KL(target ‖ p) of lists (…, N, K), both as logarithms, mean over lists -> ()."""
    differences = log_target.exp() * (log_target - log_p)
    divergences = differences.sum(dim=-1)  # of each list
    return divergences.mean()


@dataclass(frozen=True)
class QueueKL(ListTerm):
    """The student is as near to each text of a queue as its teacher is. BibTeX:
    limkonchotiwat2022congen.

    See `isotrope.terms._queue.OverQueue`. ConGen's student reads a second text, such as a
    back-translation; here student and teacher read one text. SCT (TACL 2023) has it for training
    without a larger teacher.
    """

    teacher: str
    queue: Count = 2048
    temperature: AboveZero = 0.05
    teacher_temperature: AboveZero = 0.05
    weight: NonNegative = 1.0

    def of_lists(self, student: Tensor, teacher: Tensor) -> Tensor:
        return self.weight * queue_kl(student, teacher, self.temperature, self.teacher_temperature)


@dataclass(frozen=True)
class Distillation(ListTerm):
    """The same over the batch, the sentence itself included; one temperature. BibTeX:
    hinton2015distilling.
    """

    queue = 0  # the batch
    teacher: str
    temperature: AboveZero = 0.05
    weight: NonNegative = 1.0

    def of_lists(self, student: Tensor, teacher: Tensor) -> Tensor:
        return self.weight * queue_kl(student, teacher, self.temperature, self.temperature)
