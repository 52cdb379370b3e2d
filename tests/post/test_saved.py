"""A linear step in a saved model gives the vectors that it was fitted for, in plain sentence-transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from conftest import sentences
from isotrope import load
from isotrope.encoder import save
from isotrope.post.fitted import LinearStep
from isotrope.post.removal import Removal
from isotrope.post.saved import with_linear
from isotrope.post.whitening import Whitening

TEXTS = sentences(60)
STEPS = [Whitening(exponent=0.0), Whitening(exponent=0.25, k=7), Removal(k=2)]


def fitted(step: LinearStep, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """μ, W, and the vectors (x − μ) W with unit length."""
    mean, matrix = step.linear(vectors.astype(np.float64))
    moved = (vectors - mean) @ matrix
    return mean, matrix, moved / np.linalg.norm(moved, axis=1, keepdims=True)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("pooling", ["mean", "first_last"])
def test_a_loaded_model_gives_the_fitted_vectors_with_unit_length(
    step: LinearStep, pooling: str, tiny_model: Path, tmp_path: Path
) -> None:
    encoder = load(tiny_model, pooling, normalize=True)
    before = encoder.encode(TEXTS)
    mean, matrix, expected = fitted(step, before)
    save(with_linear(encoder, mean, matrix), tmp_path / "new")
    for opened in (SentenceTransformer(str(tmp_path / "new"), device="cpu"), load(tmp_path / "new")):
        np.testing.assert_allclose(opened.encode(TEXTS), expected, atol=1e-5)
    np.testing.assert_array_equal(encoder.encode(TEXTS), before)  # as it was


def test_what_has_no_unit_length_gets_none_and_prompts_are_kept(prompted_model: Path, tmp_path: Path) -> None:
    encoder = load(prompted_model, "mean", prompt_name="query")
    vectors = encoder.encode(TEXTS)
    mean, matrix = Whitening(exponent=0.0).linear(vectors.astype(np.float64))
    new = with_linear(encoder, mean, matrix)
    save(new, tmp_path / "new")
    opened = load(tmp_path / "new")
    assert (opened.prompts, opened.default_prompt_name) == (encoder.prompts, "query")
    np.testing.assert_allclose(opened.encode(TEXTS), (vectors - mean) @ matrix, atol=1e-5)
    assert not np.allclose(np.linalg.norm(opened.encode(TEXTS), axis=1), 1, atol=1e-3)


def test_vectors_that_are_cut_are_cut_inside(tiny_model: Path) -> None:
    encoder = load(tiny_model, "mean", normalize=True)
    encoder.truncate_dim = 8
    vectors = encoder.encode(TEXTS)
    mean, matrix = Whitening(exponent=0.0).linear(vectors.astype(np.float64))
    new = with_linear(encoder, mean, matrix)
    np.testing.assert_allclose(new.encode(TEXTS), (vectors - mean) @ matrix, atol=1e-5)
    assert (new.get_embedding_dimension(), encoder.truncate_dim) == (8, 8)
