"""Phrases between stop words, in words; one of them is hidden."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isotrope import component, load
from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.tokens.phrase import Phrase, phrases
from token_batches import seeded

rows = st.lists(st.lists(st.booleans(), min_size=9, max_size=9), min_size=1, max_size=4)


@settings(deadline=None)
@given(rows, st.integers(1, 9))
def test_numbers_equal_the_loop(content: list[list[bool]], longest: int) -> None:
    found = phrases(torch.tensor(content), longest).tolist()
    for row, numbers in zip(content, found, strict=True):
        expected, number, length = [], 0, 0
        for inside in row:
            length = length + 1 if inside else 0
            number += inside and (length - 1) % longest == 0
            expected.append(number * inside)
        assert numbers == expected


def hidden(text: str, step: Phrase, tokenizer: object) -> set[str]:
    """What forty draws hide of a text."""
    given = tokenizer([text] * 40, return_tensors="pt")  # type: ignore[operator]
    shown = step(dict(given), seeded())["input_ids"]
    changed = shown != given["input_ids"]
    assert shown[changed].eq(step.mask_id).all()
    return {tokenizer.decode(ids[row]) for ids, row in zip(given["input_ids"], changed, strict=True)}  # type: ignore[attr-defined]


def test_a_phrase_lies_between_stop_words_and_punctuation() -> None:
    words = load("isotrope/tiny", device="cpu").tokenizer
    step = component("tokens", "phrase").build(BuildContext(tokenizer=words))
    text = "the old river and a green boat, which is of stone"
    assert hidden(text, step, words) == {"old river", "green boat", "stone"}
    assert hidden("it is, and they are", step, words) == {""}, "no phrase, nothing hidden"
    long = component("tokens", "phrase", longest=2).build(BuildContext(tokenizer=words))
    assert hidden("the old green river boat", long, words) == {"old green", "river boat"}


class Marked(SimpleNamespace):
    """A tokenizer that marks the first part of a word: «the theory», «The river»."""

    mask_token_id = 0
    words = ("<mask>", "<s>", "</s>", "Ġthe", "ory", "The", "Ġriver", ",", "Ġnew")

    def __len__(self) -> int:
        return len(self.words)

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [self.words[each] for each in ids]


def test_a_part_of_a_word_is_no_stop_word() -> None:
    step = Phrase().build(BuildContext(tokenizer=Marked()))
    ids = torch.tensor([[1, 5, 6, 3, 4, 7, 3, 2], [1, 3, 6, 7, 8, 4, 3, 2]])
    among = torch.ones_like(ids, dtype=torch.bool).index_fill(1, torch.tensor([0, 7]), False)
    marks = [[int(each) for each in row] for row in step.content(ids, among)]
    assert marks == [[0, 0, 1, 1, 1, 0, 0, 0], [0, 0, 1, 0, 1, 1, 0, 0]], "the river, «the·ory»; river, «new·ory»"
    with pytest.raises(UserError, match="the model has no word"):
        Phrase().build(BuildContext(tokenizer=SimpleNamespace(mask_token_id=None)))
