"""Distillation from a teacher's queue and from its vectors by plain loops, for the tests of the
fast versions.
"""

import math

from torch import Tensor

from oracle.ranking import top_one


def queue_kl(
    student: Tensor, teacher: Tensor, temperature: float, teacher_temperature: float
) -> float:
    divergences = []
    for row, target in zip(student.double().tolist(), teacher.double().tolist(), strict=True):
        p, q = top_one(row, temperature), top_one(target, teacher_temperature)
        divergences.append(sum(b * math.log(b / a) for a, b in zip(p, q, strict=True)))
    return sum(divergences) / len(divergences)


def vector_match(student: Tensor, teacher: Tensor, measure: str) -> float:
    distances = []
    for s, t in zip(student.double().tolist(), teacher.double().tolist(), strict=True):
        if measure == "l2":
            distances.append(math.sqrt(sum((a - b) ** 2 for a, b in zip(s, t, strict=True))))
        else:
            dot = sum(a * b for a, b in zip(s, t, strict=True))
            distances.append(1 - dot / (math.hypot(*s) * math.hypot(*t)))
    return sum(distances) / len(distances)
