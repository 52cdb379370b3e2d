"""The preset distil: a student follows a teacher of another width, one pass a text, in one or
several widths.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from torch import Tensor

import isotrope
from helpers.words import sentences
from isotrope.objective.objective import Objective
from isotrope.preset.preset import build_objective, read_preset
from isotrope.types import Batch

TERMS = ["vectors", "queue_kl", "batch_kl"]


@dataclass
class Known:
    """A teacher with 24 columns, of 8 kinds of texts."""

    width: int = 24

    def __call__(self, batch: Batch) -> Tensor:
        kinds = torch.randn(8, self.width, generator=torch.Generator().manual_seed(1))
        return F.normalize(kinds, dim=-1)[batch.rows % 8]


def distil(folder: Path, *overrides: str) -> tuple[Objective, SentenceTransformer]:
    torch.manual_seed(0)
    preset = read_preset("distil", ["terms.queue_kl.queue=32", *overrides])
    student = isotrope.load(folder, "mean", dropout=0.0, device="cpu").train()
    return build_objective(preset, student, teachers={"teacher": Known()}), student


def steps(objective: Objective, student: SentenceTransformer, count: int) -> list[dict[str, float]]:
    """Some steps on one batch, which the student can learn."""
    column, optimizer = (
        student.preprocess(sentences(16)),
        torch.optim.Adam(objective.parameters(), 3e-3),
    )
    losses = []
    for _ in range(count):
        found = objective([dict(column)], torch.arange(16))
        optimizer.zero_grad()
        sum(found.values()).backward()  # type: ignore[union-attr]
        optimizer.step()
        objective.after_step()
        losses.append({name: value.item() for name, value in found.items()})
    return losses


def test_a_student_follows_a_teacher_of_another_width(tiny_model: Path) -> None:
    objective, student = distil(tiny_model)
    first, *_, last = steps(objective, student, 12)
    assert list(first) == TERMS
    assert last["vectors"] < 0.7 * first["vectors"]
    assert last["batch_kl"] < 0.9 * first["batch_kl"]
    assert objective.passes == 1
    own = dict(objective.terms["queue_kl"].named_parameters())  # type: ignore[attr-defined]
    assert [tuple(weight.shape) for weight in own.values()] == [(24, 32)]


def test_every_width_has_its_own_projection(tiny_model: Path) -> None:
    objective, student = distil(tiny_model, "train.dims=[32, 8]")
    (found,) = steps(objective, student, 1)
    assert list(found) == [f"{term}@{dim}" for dim in (32, 8) for term in TERMS]
    assert objective.narrow[8][1]["vectors"].projection.weight.shape == (24, 8)
