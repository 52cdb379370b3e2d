"""Token shuffling: the words and the frame stay, every order is as likely."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import sentences
from isotrope import Objective, load
from isotrope.terms.infonce import InfoNCE
from isotrope.tokens.shuffle import Shuffle, shuffle
from token_batches import CLS, SEP, features, read, seeded

lengths = st.lists(st.integers(0, 9), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(lengths, st.booleans(), st.integers(0, 10_000))
def test_shuffling_keeps_the_words_and_the_frame(counts: list[int], left: bool, seed: int) -> None:
    batch = features(counts, left)
    after = Shuffle()(batch, seeded(seed))
    assert after["attention_mask"].equal(batch["attention_mask"])
    assert after["input_ids"][batch["attention_mask"] == 0].eq(0).all()
    for tokens, count in zip(read(after), counts, strict=True):
        assert tokens[0] == CLS
        assert tokens[-1] == SEP
        assert sorted(tokens[1:-1]) == list(range(1, count + 1))


def test_every_order_is_as_likely() -> None:
    batch = features([3] * 6000)
    orders = Counter(tuple(tokens[1:-1]) for tokens in read(Shuffle()(batch, seeded())))
    assert len(orders) == 6
    assert all(abs(number - 1000) < 150 for number in orders.values())  # five standard deviations


def test_shuffling_leaves_erased_tokens_where_they_are() -> None:
    batch = features([6, 4])
    batch["attention_mask"][:, 2] = 0
    after = shuffle(batch["input_ids"], batch["attention_mask"], seeded())
    assert after[:, 2].tolist() == [2, 2]
    assert sorted(after[0].tolist()) == sorted(batch["input_ids"][0].tolist())


def test_a_draw_is_a_function_of_the_generator() -> None:
    batch = features([9, 9, 9, 9])
    first, again, other = (read(Shuffle()(batch, seeded(seed))) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_a_real_encoder_reads_it(tiny_model: Path) -> None:
    """One pass changes, the other does not."""
    model = load(tiny_model, "mean", dropout=0.0, device="cpu").eval()
    objective = Objective(model, {"infonce": InfoNCE()}, tokens=[(Shuffle(), [1])])
    views = objective.encode([model.preprocess(sentences(4))], None)
    assert torch.allclose(views.stack[0], model.encode(sentences(4), convert_to_tensor=True), atol=1e-5)
    assert not torch.allclose(views.stack[1], views.stack[0], atol=1e-3)


def test_the_tokens_of_a_prompt_are_left_alone() -> None:
    """Its length counts [CLS], as sentence-transformers has it; a pooling may leave out so many."""
    for left in (False, True):
        batch = features([9, 4], left) | {"prompt_length": 4}
        for seed in range(20):
            assert all(tokens[:4] == [CLS, 1, 2, 3] for tokens in read(Shuffle()(batch, seeded(seed))))
