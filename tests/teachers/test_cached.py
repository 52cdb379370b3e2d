"""The cached teacher: one pass over the corpus, then a look-up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from isotrope.teachers._embeddings import CorpusEmbeddings
from isotrope.teachers._model import TeacherEncoder
from isotrope.text.corpus import Texts
from teaching import Progress, batch, known, teacher


@pytest.mark.parametrize("options", [{}, {"pooling": "cls"}, {"max_length": 6}, {"precision": "bf16"}])
def test_cached_equals_live(corpus: Texts, tiny_model: Path, options: dict[str, Any]) -> None:
    cached, live = (teacher(kind, known(corpus), model=str(tiny_model), **options) for kind in ("cached", "live"))
    rows = batch(7, 3, 250, 599, 3)
    assert torch.allclose(cached(rows), live(rows), atol=1e-2 if "precision" in options else 1e-6)
    assert torch.allclose(cached(rows).norm(dim=-1), torch.ones(5), atol=1e-6)


def test_of_a_sample_are_those_of_the_whole(corpus: Texts, tiny_model: Path) -> None:
    rows = np.array([500, 17, 250, 3, 17])
    some = teacher("cached", known(corpus, rows=rows), model=str(tiny_model))
    every = teacher("cached", known(corpus), model=str(tiny_model))
    assert len(some.vectors) == 4
    assert torch.allclose(some(batch(250, 3, 500, 17)), every(batch(250, 3, 500, 17)), atol=1e-6)


def test_cached_embeddings_are_no_module(corpus: Texts, tiny_model: Path) -> None:
    store = teacher("cached", known(corpus), model=str(tiny_model))
    assert isinstance(store, CorpusEmbeddings)
    assert not isinstance(store, torch.nn.Module)


def test_once_it_is_open_no_model_runs(corpus: Texts, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress = Progress()
    taught = teacher("cached", known(corpus, progress=progress), model=str(tiny_model))
    assert progress[-1] == len(corpus)
    monkeypatch.setattr(TeacherEncoder, "__call__", lambda *_: pytest.fail("a sentence was encoded again"))
    again = teacher("cached", known(corpus), model=str(tiny_model))
    assert torch.equal(again(batch(3, 1)), taught(batch(1, 3)).flip(0))
