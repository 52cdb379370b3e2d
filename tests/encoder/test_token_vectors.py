"""A static student: each token's vector is what the teacher says of it alone; it loads in sentence-transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from isotrope.encoder import load, save
from isotrope.encoder.token_vectors import principal, static_model, zipf_weights
from isotrope.errors import UserError

TEXTS = ["the old king of the island", "a red bird", "war"]


def test_zipf_weights_are_those_of_smooth_inverse_frequency() -> None:
    count, a = 50, 1e-2
    total = sum(1 / rank for rank in range(2, count + 2))
    expected = [a / (a + 1 / rank / total) for rank in range(2, count + 2)]
    np.testing.assert_allclose(zipf_weights(count, a), expected, rtol=1e-12)
    assert np.all(np.diff(zipf_weights(count)) > 0), "the rarer, the heavier"


def test_principal_directions_keep_the_distances_that_they_can() -> None:
    vectors = np.random.default_rng(0).normal(size=(200, 3)) @ np.random.default_rng(1).normal(size=(3, 8)) + 5
    found = principal(vectors, 3)  # all of the variance
    assert np.all(np.diff(found.var(axis=0)) < 0)
    apart = np.linalg.norm(vectors[:, None] - vectors[None], axis=-1)
    np.testing.assert_allclose(np.linalg.norm(found[:, None] - found[None], axis=-1), apart, atol=1e-9)
    assert principal(vectors, 99).shape == (200, 8)


@pytest.mark.usefixtures("cached")
def test_a_token_has_what_the_teacher_says_of_it_alone(tiny_model: Path, tmp_path: Path) -> None:
    teacher = load(tiny_model, normalize=True, device="cpu")
    student = static_model(teacher, width=16)
    words = ["king", "island", "bird", "war"]  # each is one token
    ids = [student.tokenizer.token_to_id(word) for word in words]
    said = teacher.encode(words)
    vectors = student[0].embedding.weight.detach().numpy() / zipf_weights(student[0].num_embeddings)[:, None]
    apart = np.linalg.norm(said[:, None] - said[None], axis=-1).ravel()
    found = np.linalg.norm(vectors[ids][:, None] - vectors[ids][None], axis=-1).ravel()
    assert np.corrcoef(apart, found)[0, 1] > 0.9, "16 of 32 dimensions keep most"
    assert isinstance(student[-1], Normalize)
    save(student, tmp_path / "static")
    plain, ours = SentenceTransformer(str(tmp_path / "static"), device="cpu"), load(tmp_path / "static", device="cpu")
    assert isinstance(plain[0], StaticEmbedding)
    for model in (plain, ours):
        np.testing.assert_allclose(model.encode(TEXTS), student.encode(TEXTS), atol=1e-6)
    mean = np.mean([student[0].embedding.weight[student.tokenizer.token_to_id(w)].tolist() for w in ("red", "bird")], 0)
    np.testing.assert_allclose(student.encode(["red bird"])[0], mean / np.linalg.norm(mean), atol=1e-6)


@pytest.mark.usefixtures("cached")
def test_all_dimensions_give_exactly_the_teachers_distances(tiny_model: Path) -> None:
    teacher = load(tiny_model, device="cpu")
    student = static_model(teacher, width=32)
    vectors = student[0].embedding.weight.detach().double().numpy()
    vectors /= zipf_weights(len(vectors))[:, None]
    words = ["king", "island", "bird", "war"]
    said = teacher.encode(words).astype(np.float64)
    rows = vectors[[student.tokenizer.token_to_id(word) for word in words]]
    for one, other in zip(said, rows, strict=True):
        np.testing.assert_allclose(
            np.linalg.norm(said - one, axis=1), np.linalg.norm(rows - other, axis=1), rtol=1e-3, atol=1e-4
        )
    assert not isinstance(student[-1], Normalize)


@pytest.mark.usefixtures("cached")
def test_a_second_student_costs_no_pass(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = static_model(load(tiny_model, device="cpu"))
    monkeypatch.setattr("isotrope.encoder.token_vectors._of_tokens", lambda *_: pytest.fail("a second pass"))
    second = static_model(load(tiny_model, device="cpu"))
    torch.testing.assert_close(first.state_dict(), second.state_dict(), rtol=0, atol=0)
    with pytest.raises(UserError, match="static: the teacher begins with a StaticEmbedding"):
        static_model(second)
