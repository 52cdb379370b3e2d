"""A static student: each token's vector is what the teacher says of it alone; it loads in sentence-transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from isotrope.encoder import load, save
from isotrope.encoder.token_vectors import principal, stand_for_text, static_model, zipf_weights
from isotrope.errors import UserError

WORDS = ["king", "island", "bird", "war"]  # each is one token
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


def distances(rows: np.ndarray) -> np.ndarray:
    """Between all rows (N, D): (N, N)."""
    return np.asarray(np.linalg.norm(rows[:, None] - rows[None], axis=-1))


def before_weights(student: SentenceTransformer) -> np.ndarray:
    """The vectors of `WORDS` without their tokens' weights (4, K). The rank counts the words that come before."""
    vocabulary = sorted(student.tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    ranks = {word: rank for rank, word in enumerate(name for name, _ in vocabulary if not name.startswith("["))}
    weights = zipf_weights(len(ranks))
    rows = student[0].embedding.weight.detach().double().numpy()
    return np.stack([rows[student.tokenizer.token_to_id(word)] / weights[ranks[word]] for word in WORDS])


@pytest.mark.usefixtures("cached")
def test_a_token_has_what_the_teacher_says_of_it_alone(tiny_model: Path, tmp_path: Path) -> None:
    student = static_model(load(tiny_model, normalize=True, device="cpu"), width=16)
    said = load(tiny_model, normalize=False, device="cpu").encode(WORDS)  # before unit length
    apart, found = distances(said).ravel(), distances(before_weights(student)).ravel()
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
    said = teacher.encode(WORDS).astype(np.float64)
    np.testing.assert_allclose(distances(before_weights(student)), distances(said), rtol=1e-3, atol=1e-4)
    assert not isinstance(student[-1], Normalize)


@pytest.mark.usefixtures("cached")
def test_tokens_in_brackets_are_no_words(tiny_model: Path) -> None:
    """They have no rank: BERT's first 999 tokens are such ones, and every word would seem rare."""
    tokenizer = Tokenizer(WordLevel({"[CLS]": 0, "[unused5]": 1, "the": 2, "[": 3, "<s>": 4, "<3": 5}, "[CLS]"))
    assert stand_for_text(tokenizer, 7).tolist() == [False, False, True, True, False, True, False]
    student = static_model(load(tiny_model, device="cpu"))
    assert not student[0].embedding.weight[student.tokenizer.token_to_id("[SEP]")].any()


@pytest.mark.usefixtures("cached")
def test_a_second_student_costs_no_pass(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = static_model(load(tiny_model, device="cpu"))
    monkeypatch.setattr("isotrope.encoder.token_vectors._of_tokens", lambda *_: pytest.fail("a second pass"))
    second = static_model(load(tiny_model, device="cpu"))
    torch.testing.assert_close(first.state_dict(), second.state_dict(), rtol=0, atol=0)
    with pytest.raises(UserError, match="static: the teacher begins with a StaticEmbedding"):
        static_model(second)
