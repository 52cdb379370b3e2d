"""Features made by numpy are the model's own, bit for bit."""

from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer

from conftest import sentences
from isotrope import load

TEXTS = [*sentences(6), "", "river " * 300, "naïve café 東京"]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return bool(one == other)


@pytest.mark.parametrize("options", [{}, {"prompt": "song of "}, {"max_length": 5}, {"task": "query"}])
def test_equal_to_the_own_ones(prompted_model: Path, options: dict[str, Any]) -> None:
    plain, model = SentenceTransformer(str(prompted_model), device="cpu"), load(prompted_model, device="cpu")
    for texts in (TEXTS, TEXTS[:1], [""], []):
        expected, found = plain.preprocess(texts, **options), model.preprocess(texts, **options)
        assert list(found) == list(expected)
        assert all(same(found[key], expected[key]) for key in expected)


def test_no_list_is_flattened(prompted_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is what takes the time."""
    model = load(prompted_model, device="cpu")

    def refuse(*args: Any) -> None:
        raise AssertionError

    monkeypatch.setattr("transformers.tokenization_utils_base.flatten", refuse)
    model.preprocess(TEXTS)
