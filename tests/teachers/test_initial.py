"""The model before training stays as it was while the student learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer

import isotrope
from isotrope.errors import UserError
from isotrope.objective.objective import Objective
from isotrope.terms.infonce import InfoNCE
from isotrope.terms.listmle import ListMLE
from isotrope.text.corpus import Texts
from teaching import batch, known, teacher


class TestInitial:
    @pytest.fixture
    def student(self, tiny_model: Path) -> SentenceTransformer:
        return isotrope.load(tiny_model, "cls", dropout=0.3, max_length=12)

    @pytest.mark.parametrize(("kind", "options"), [
        ("initial", {}), ("cached", {"model": "initial"}), ("live", {"model": "initial"}),
        ("mixture", {"models": ["initial"]}), ("mixture", {"models": ["initial"], "live": True}),
    ])  # fmt: skip
    def test_stays_while_the_student_learns(
        self, corpus: Texts, student: SentenceTransformer, kind: str, options: dict[str, Any]
    ) -> None:
        """Of the objective's parameters, all are the student's; the teacher's embeddings do not move."""
        student.train()
        taught = teacher(kind, known(corpus, student=student.train()), **options)
        before, rows = taught(batch(0, 1, 2, 3)), torch.arange(4)
        expected = student.encode(list(corpus.dataset[:4]["text"]), convert_to_tensor=True)
        assert torch.allclose(before, F.normalize(expected.clone(), dim=-1), atol=1e-6)

        objective = Objective(student, {"infonce": InfoNCE(), "rank": ListMLE("rank")}, teachers={"rank": taught})
        assert {id(p) for p in objective.parameters()} == {id(p) for p in student.parameters()}
        optimizer = torch.optim.SGD(objective.parameters(), lr=0.5)
        objective.train()
        features = student.preprocess(list(corpus.dataset[:4]["text"]))
        sum(objective([features], rows).values()).backward()
        optimizer.step()
        after = student.encode(list(corpus.dataset[:4]["text"]), convert_to_tensor=True)
        assert not torch.allclose(after, expected, atol=1e-3)
        assert torch.equal(taught(batch(0, 1, 2, 3)), before)
        assert not taught(batch(0)).requires_grad

    def test_reads_at_its_own_length(self, corpus: Texts, student: SentenceTransformer) -> None:
        plain, short = (
            teacher("initial", known(corpus, student=student), max_length=length)(batch(1)) for length in (0, 5)
        )
        assert not torch.allclose(plain, short, atol=1e-5)
        assert student.max_seq_length == 12

    def test_needs_a_student(self, corpus: Texts, student: SentenceTransformer) -> None:
        with pytest.raises(UserError, match="student"):
            teacher("initial", known(corpus))
        with pytest.raises(UserError, match="pooling"):
            teacher("live", known(corpus, student=student), model="initial", pooling="mean")
