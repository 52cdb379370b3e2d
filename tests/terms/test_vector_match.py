"""Matching of vectors: against loops, and against sentence-transformers' loss on the same vectors."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from sentence_transformers.sentence_transformer.losses import EmbedDistillLoss

from drawn import draw, scores
from isotrope import component
from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.terms.vector_match import Distance, vector_match
from oracle import distillation as oracle


@pytest.mark.parametrize("measure", ["cosine", "l2"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_equals_the_loops(measure: Distance, dtype: torch.dtype, tolerance: float) -> None:
    student, teacher = draw(5, 7).to(dtype), draw(5, 7, seed=1).to(dtype)
    expected = oracle.vector_match(student, teacher, measure)
    assert vector_match(student, teacher, measure).item() == pytest.approx(expected, rel=tolerance)
    assert torch.autograd.gradcheck(lambda s: vector_match(s, teacher.double(), measure), draw(5, 7).requires_grad_())


@pytest.mark.parametrize("measure", ["cosine", "l2"])
def test_equals_sentence_transformers(measure: Distance) -> None:
    """Same vectors, same projection: same value, and same gradient of the projection."""
    student, teacher = F.normalize(draw(6, 4, dtype=torch.float32), dim=-1), draw(6, 8, seed=1, dtype=torch.float32)
    context = BuildContext(width=4, teachers={"rank": SimpleNamespace(width=8)})
    ours = component("terms", "vector_match", teacher="rank", measure=measure).build(context)
    theirs = EmbedDistillLoss(torch.nn.Identity(), measure)
    theirs.projection = torch.nn.Linear(4, 8, bias=False)
    theirs.projection.weight.data.copy_(ours.projection.weight)
    unit = F.normalize(teacher, dim=-1)
    found, expected = ours(scores(student[None], teacher)), theirs.compute_loss_from_embeddings([student], [unit])
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    (found + expected).backward()
    assert torch.allclose(ours.projection.weight.grad, theirs.projection.weight.grad, rtol=1e-4, atol=1e-7)


def test_a_student_at_its_teacher_has_a_finite_gradient() -> None:
    vectors = F.normalize(draw(5, 7), dim=-1).requires_grad_()
    for measure in ("cosine", "l2"):
        loss = vector_match(vectors, vectors.detach().clone(), measure)
        (gradient,) = torch.autograd.grad(loss, vectors)
        assert loss.item() == pytest.approx(0, abs=1e-12)
        assert torch.isfinite(gradient).all()


def test_a_teacher_without_a_width_is_refused() -> None:
    term = component("terms", "vector_match", teacher="rank")
    with pytest.raises(UserError, match="'rank' has no width"):
        term.build(BuildContext(width=4, teachers={"rank": lambda batch: batch}))
    with pytest.raises(UserError, match="asks for the teacher 'rank'"):
        term.build(BuildContext(width=4))
