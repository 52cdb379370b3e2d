"""Deletion of tokens: what stays, in order, and how many."""

from __future__ import annotations

from pathlib import Path

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import sentences
from isotrope import load
from isotrope.tokens.delete import Delete, survivors, without_gaps
from token_batches import CLS, SEP, features, read, seeded

lengths = st.lists(st.integers(0, 9), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(lengths, st.booleans(), st.floats(0, 1), st.integers(0, 10_000))
def test_what_stays_is_in_order_and_moves_together(counts: list[int], left: bool, ratio: float, seed: int) -> None:
    after = Delete(ratio)(features(counts, left), seeded(seed))
    assert {value.shape for value in after.values()} == {after["input_ids"].shape}
    assert after["input_ids"][after["attention_mask"] == 0].eq(0).all()
    assert torch.equal(after["attention_mask"], after["attention_mask"].sort(dim=1, descending=True).values)
    assert after["attention_mask"].sum(dim=1).max() == after["input_ids"].shape[1]
    for tokens, count in zip(read(after), counts, strict=True):
        assert tokens[0] == CLS
        assert tokens[-1] == SEP
        assert tokens[1:-1] == sorted(set(tokens[1:-1]) & set(range(1, count + 1)))
        assert len(tokens) > 2 or not count, "one token of the sentence stays"


def test_the_ratio_is_a_probability() -> None:
    mask = torch.ones(4000, 12, dtype=torch.long)
    stay = survivors(mask, 0.6, seeded())
    assert abs(stay[:, 1:-1].float().mean() - 0.4) < 0.01
    assert stay[:, 1:-1].sum(dim=1).unique().tolist()[0] == 1
    assert stay[:, [0, -1]].all()
    assert survivors(mask, 0.0, seeded()).all()
    assert survivors(mask, 1.0, seeded())[:, 1:-1].sum(dim=1).eq(1).all()


def test_without_gaps_by_hand() -> None:
    ids = torch.tensor([[9, 1, 2, 8, 0], [9, 8, 0, 0, 0]])
    stay = torch.tensor([[True, False, True, True, False], [True, True, False, False, False]])
    assert without_gaps(ids, stay).tolist() == [[9, 2, 8], [9, 8, 0]]


def test_the_encoder_reads_what_is_left_alone(tiny_model: Path) -> None:
    """A sentence whose other words were never there has the same vector."""
    model = load(tiny_model, "mean", dropout=0.0, device="cpu").eval()
    damaged = Delete()(dict(model.preprocess(sentences(4))), seeded(1))
    rest = [model.tokenizer.decode(ids[1:-1]) for ids in read(damaged)]
    expected = model(model.preprocess(rest))["sentence_embedding"]
    assert torch.allclose(model(damaged)["sentence_embedding"], expected, atol=1e-5)
