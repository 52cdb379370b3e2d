"""The live teacher: every batch is encoded anew, and nothing is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import isotrope
from isotrope.errors import UserError
from isotrope.teachers._model import TeacherEncoder
from isotrope.text.corpus import Texts
from teaching import batch, known, teacher


def test_every_batch_is_encoded_anew_and_nothing_is_kept(
    corpus: Texts, tiny_model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    encode = TeacherEncoder.__call__

    def note(self: TeacherEncoder, texts: list[str]) -> torch.Tensor:
        asked.append(texts)
        return encode(self, texts)

    monkeypatch.setattr(TeacherEncoder, "__call__", note)
    taught = teacher("live", known(corpus), model=str(tiny_model))
    assert asked == [], "building it encodes nothing"
    first, second = taught(batch(9, 2)), taught(batch(2, 9))
    assert asked == [[corpus.dataset[row]["text"] for row in rows] for rows in ((9, 2), (2, 9))]
    assert torch.allclose(first, second.flip(0), atol=1e-6)
    assert not cache.exists()


def test_rows_outside_of_those_that_the_run_visits_are_served_too(corpus: Texts, tiny_model: Path) -> None:
    """Unlike the cached one's: it has the whole corpus."""
    taught = teacher("live", known(corpus, rows=torch.arange(4).numpy()), model=str(tiny_model))
    assert torch.allclose(taught(batch(500)).norm(dim=-1), torch.ones(1), atol=1e-6)


def test_it_is_no_module_has_no_gradient_and_needs_a_corpus(corpus: Texts, tiny_model: Path) -> None:
    taught = teacher("live", known(corpus), model=str(tiny_model))
    assert not isinstance(taught, torch.nn.Module), "a trainer would take it for the student"
    assert not taught(batch(0)).requires_grad
    with pytest.raises(UserError, match="needs the corpus"):
        isotrope.component("teachers", "live", model=str(tiny_model)).build(known(None))  # type: ignore[arg-type]
