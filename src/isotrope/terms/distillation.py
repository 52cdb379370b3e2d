"""Knowledge distillation from in-batch similarities, the variant in DCLR's Table 2 (Zhou et al., ACL 2022, Sec. 6.2).

The paper says no more than "Hinton et al., 2015, with SimCSE as the teacher": https://arxiv.org/abs/1503.02531. Here
the classes are the sentences of the batch, the logits their cosines. Hinton's factor T² makes up for a temperature
other than the contrast's; at equal temperatures, the default, it is 1, and ``weight`` takes its place otherwise.
"""

from dataclasses import dataclass

from torch import Tensor

from isotrope.terms._queue import ListTerm
from isotrope.terms.queue_kl import queue_kl
from isotrope.types import AboveZero, NonNegative


def distillation(cosines: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """KL from the teacher's soft targets to the student's distribution over the batch, the sentence itself included.

    cosines (N, N) or (P, N, N), teacher (N, N) -> (): mean over anchors and positives; 0 where the student agrees.
    """
    return queue_kl(cosines, teacher, temperature, temperature)


@dataclass(frozen=True)
class Distillation(ListTerm):
    """The student's similarities follow the teacher's. BibTeX: hinton2015distilling."""

    stage = "terms"
    queue = 0  # the batch
    teacher: str
    temperature: AboveZero = 0.05
    weight: NonNegative = 1.0

    def of_lists(self, student: Tensor, teacher: Tensor) -> Tensor:
        return self.weight * distillation(student, teacher, self.temperature)
