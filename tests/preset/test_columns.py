"""What an outside loss reads: the words that go, the pairs that come."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import isotrope
from conftest import sentences
from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.preset.columns import READ_BY, LossInput, damaged, delete_words, once, paired, twice
from isotrope.text.opened import open as text_open


@pytest.fixture
def batch(tiny_model: Path, corpus_file: Path, cached: Path) -> LossInput:
    """Sixteen sentences of the corpus, not its first."""
    model, corpus, rows = isotrope.load(tiny_model, device="cpu"), text_open(corpus_file).texts(), range(40, 56)
    column = model.preprocess(corpus.dataset[list(rows)]["text"], max_length=32)
    return LossInput([column], torch.tensor(rows), model, BuildContext.of(model, corpus=corpus), 3, 32)


def test_six_words_of_ten_go() -> None:
    text = [f"{i} {line}" for i, line in enumerate(sentences(400))]
    kept = [delete_words(line, seed) for seed, line in enumerate(text)]
    share = sum(len(line.split()) for line in kept) / sum(len(line.split()) for line in text)
    assert 0.37 < share < 0.44
    for line, few in zip(text, kept, strict=True):
        words = iter(line.split())
        assert few
        assert all(word in words for word in few.split()), "in their order"
    assert kept == [delete_words(line, seed) for seed, line in enumerate(text)]
    assert kept != [delete_words(line, seed + 1) for seed, line in enumerate(text)]
    assert delete_words("alone", 0) == "alone"


def test_a_damaged_text_stands_beside_the_whole_one(batch: LossInput) -> None:
    few, whole = damaged(batch)
    again, _ = damaged(batch)
    assert whole is batch.columns[0]
    assert torch.equal(few["input_ids"], again["input_ids"])
    for short, long in zip(few["input_ids"], whole["input_ids"], strict=True):
        assert set(short.tolist()) - {0} < set(long.tolist()) | {0}


def test_one_pair_of_eight_is_one_sentence(batch: LossInput) -> None:
    first, second = paired(batch)
    equal = (first["input_ids"] == second["input_ids"]).all(dim=1)
    assert equal.nonzero().flatten().tolist() == [0, 8]
    assert torch.equal(second["input_ids"][1], first["input_ids"][0])


def test_text_alone_comes_twice_and_positives_once(batch: LossInput) -> None:
    first, second = twice(batch)
    assert first is not second
    assert torch.equal(first["input_ids"], second["input_ids"])
    three = LossInput([first, second, first], batch.rows, batch.model, batch.context, 0, 32)
    assert twice(three) is three.columns
    assert once(batch) == [batch.columns[0]]
    for read in READ_BY.values():
        with pytest.raises(UserError, match="reads texts alone"):
            read(three)
