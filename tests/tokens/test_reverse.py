"""Reversed sentences."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from isotrope.tokens.reverse import Reverse, reverse
from token_batches import CLS, SEP, features, read, seeded


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.booleans())
def test_the_inner_tokens_are_turned_round(counts: list[int], left: bool) -> None:
    batch = features(counts, left)
    after = Reverse()(batch, seeded())
    assert read(after) == [[CLS, *range(count, 0, -1), SEP] for count in counts]
    assert read(Reverse()(after, seeded())) == read(batch), "twice is as before"


def test_a_prompt_keeps_its_place() -> None:
    batch = features([5, 3])
    ids = reverse(batch["input_ids"], batch["attention_mask"], first=3)
    assert read(batch | {"input_ids": ids}) == [[CLS, 1, 2, 5, 4, 3, SEP], [CLS, 1, 2, 3, SEP]]
