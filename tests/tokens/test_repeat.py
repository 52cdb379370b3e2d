"""Word repetition: order, numbers, and that a real encoder reads the longer batch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import sentences
from isotrope import component, load
from isotrope.errors import UserError
from isotrope.tokens.repeat import Repeat, repeats, with_repeats
from token_batches import CLS, SEP, features, read, seeded

lengths = st.lists(st.integers(0, 9), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(lengths, st.booleans(), st.floats(0, 1), st.integers(2, 30), st.integers(0, 10_000))
def test_repetition_keeps_the_order(counts: list[int], left: bool, ratio: float, room: int, seed: int) -> None:
    batch = features(counts, left)
    after = Repeat(ratio, max_length=max(counts) + room)(batch, seeded(seed))
    assert {value.shape for value in after.values()} == {after["input_ids"].shape}
    assert after["input_ids"][after["attention_mask"] == 0].eq(0).all()
    for tokens, count in zip(read(after), counts, strict=True):
        assert list(dict.fromkeys(tokens)) == [CLS, *range(1, count + 1), SEP]
        said = Counter(tokens)
        assert said[CLS] == said[SEP] == 1
        assert max(said.values()) <= 2
        assert tokens == sorted(tokens, key=[CLS, *range(1, count + 1), SEP].index)
        assert len(tokens) - count - 2 <= max(2, int(torch.tensor(ratio, dtype=torch.float32) * count))
        assert len(tokens) <= max(counts) + room


def test_numbers_of_repeated_words() -> None:
    """Uniform on 0 … max(2, ⌊.32 · 10⌋ = 3), and never beyond the encoder's positions."""
    mask = torch.ones(8000, 12, dtype=torch.long)
    numbers = Counter(repeats(mask, 0.32, 512, seeded()).sum(dim=1).tolist())
    assert set(numbers) == {0, 1, 2, 3}
    assert all(abs(number - 2000) < 200 for number in numbers.values())
    assert int(repeats(mask, 0.32, 13, seeded()).sum(dim=1).max()) == 1
    assert not repeats(mask, 0.32, 8, seeded()).any()


def test_with_repeats_by_hand() -> None:
    ids, mask = torch.tensor([[9, 1, 2, 8, 0], [9, 8, 0, 0, 0]]), torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]])
    twice = torch.tensor([[False, False, True, False, False], [False] * 5])
    assert with_repeats(ids, mask, twice).tolist() == [[9, 1, 2, 2, 8], [9, 8, 0, 0, 0]]


def test_a_longer_batch_is_read(tiny_model: Path) -> None:
    model = load(tiny_model, "mean", dropout=0.0, device="cpu").eval()
    column = model.preprocess(sentences(4))
    longer = Repeat()(dict(column), seeded(1))
    assert longer["input_ids"].shape[1] > column["input_ids"].shape[1]
    after = model(longer)["sentence_embedding"]
    assert torch.isfinite(after).all()
    assert not torch.allclose(after, model(dict(column))["sentence_embedding"], atol=1e-3)


def test_a_draw_is_a_function_of_the_generator() -> None:
    batch = features([9, 9, 9, 9])
    first, again, other = (read(Repeat()(batch, seeded(seed))) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(UserError, match=r"tokens\.repeat\.ratio"):
        component("tokens", "repeat", ratio=-0.1)


def test_the_tokens_of_a_prompt_are_left_alone() -> None:
    """Its length counts [CLS], as sentence-transformers has it; a pooling may leave out so many."""
    for left in (False, True):
        batch = features([9, 4], left) | {"prompt_length": 4}
        for seed in range(20):
            assert all(tokens[:4] == [CLS, 1, 2, 3] for tokens in read(Repeat(ratio=1.0)(batch, seeded(seed))))
