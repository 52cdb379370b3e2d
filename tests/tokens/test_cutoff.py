"""Cutoff of tokens, spans and features, before and behind the embedding layer: what is erased no encoder sees."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from conftest import sentences
from isotrope import load
from isotrope.contract.features import LAYER_FEATURES, LAYER_TOKENS
from isotrope.objective.passes import Passes
from isotrope.tokens.cutoff import Cutoff, LayerCutoff, cutoff
from token_batches import CLS, SEP, features, read, seeded

lengths = st.lists(st.integers(0, 9), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(lengths, st.booleans(), st.booleans(), st.floats(0, 1), st.integers(0, 10_000))
def test_cutoff_erases_a_share(counts: list[int], left: bool, span: bool, ratio: float, seed: int) -> None:
    batch = features(counts, left)
    after = Cutoff("span" if span else "token", ratio)(batch, seeded(seed))
    assert after["input_ids"].equal(batch["input_ids"])
    for tokens, count in zip(read(after), counts, strict=True):
        assert (tokens[0], tokens[-1]) == (CLS, SEP)
        gone = sorted(set(range(1, count + 1)) - set(tokens))
        assert len(gone) == int(ratio * count)
        if span and gone:
            assert gone == list(range(gone[0], gone[-1] + 1))


def test_every_step_rounds_a_share_alike() -> None:
    """0.29 of 100 are 28 in float64, as Python has it, and were 29 in float32."""
    inner, whole = features([100]), features([98]) | {LAYER_TOKENS: torch.ones(1, 100)}
    inner |= {"feature_keep": torch.ones(1, 1, 100)}
    for unit, name in (("token", "attention_mask"), ("span", "attention_mask"), ("feature", "feature_keep")):
        assert (Cutoff(unit, 0.29)(inner, seeded())[name] == 0).sum() == 28
    assert (LayerCutoff("token", 0.29)(whole, seeded())[LAYER_TOKENS] == 0).sum() == 28


@pytest.mark.parametrize("span", [False, True])
def test_every_place_is_erased_alike(span: bool) -> None:
    among = torch.tensor([False, True, True, True, False]).repeat(6000, 1)
    erased = cutoff(among, 1 / 3, span, seeded()).sum(dim=0).tolist()
    assert erased[0] == erased[-1] == 0
    assert sum(erased) == 6000
    assert all(abs(number - 2000) < 200 for number in erased[1:-1])  # five standard deviations


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 40), st.floats(0, 1), st.integers(0, 10_000))
def test_feature_cutoff_erases_a_share_of_the_features(count: int, width: int, ratio: float, seed: int) -> None:
    batch = {**features([3] * count), "feature_keep": torch.ones(count, 1, width)}
    after = Cutoff("feature", ratio)(batch, seeded(seed))
    assert after["feature_keep"].shape == (count, 1, width)
    assert ((after["feature_keep"] == 0).sum(dim=-1) == int(ratio * width)).all()
    assert ((after["feature_keep"] == 0) | (after["feature_keep"] == 1)).all()
    assert all(after[key] is batch[key] for key in ("input_ids", "attention_mask"))
    assert batch["feature_keep"].eq(1).all()


@settings(max_examples=40, deadline=None)
@given(lengths, st.floats(0, 1), st.floats(0, 1), st.integers(0, 10_000))
def test_nested_spans_lie_within_each_other(counts: list[int], ratio: float, other: float, seed: int) -> None:
    """Both draw the same, whatever else was drawn between."""
    batch, generator, gone = features(counts), seeded(seed), []
    for share in sorted([ratio, other]):
        torch.rand(3, generator=generator)
        rows = read(Cutoff("nested", share)(batch, generator))
        gone.append([set(range(1, count + 1)) - set(tokens) for tokens, count in zip(rows, counts, strict=True)])
    assert all(less <= more for less, more in zip(*gone, strict=True))


def by_hand(folder: Path, ids: Tensor, zero: list[tuple[int, int | None]]) -> Tensor:
    """[CLS] of one sentence (L,), without padding. ``zero``: (row, column) of the embedding layer; None: all."""
    bert = load(folder, "cls", dropout=0.0, device="cpu", packed=False)[0].auto_model.eval()
    states = bert.embeddings(input_ids=ids[None])
    for token, feature in zero:
        states[0, token, slice(None) if feature is None else feature] = 0.0
    return bert.encoder(states).last_hidden_state[0, 0]


@pytest.mark.parametrize("unit", ["token", "feature"])
@pytest.mark.parametrize("packed", [True, False])
def test_equals_what_is_erased_by_hand(tiny_model: Path, unit: str, packed: bool) -> None:
    model = load(tiny_model, "cls", dropout=0.0, device="cpu", packed=packed).eval()
    column = model.preprocess(sentences(4))
    lengths = column["attention_mask"].sum(dim=1).tolist()
    assert len(set(lengths)) > 1, "some are padded"
    with torch.no_grad():
        views, _, readings = Passes(model, [(LayerCutoff(unit, 0.4), [1])], seeded()).views([column], 2)
        drawn = readings[1].read
        for i, length in enumerate(lengths):
            ids = column["input_ids"][i, :length]
            if unit == "token":
                zero = [(t, None) for t in range(length) if drawn[LAYER_TOKENS][i, t] == 0]
                assert len(zero) == int(0.4 * length)
            else:
                gone = (drawn[LAYER_FEATURES][i, 0] == 0).nonzero().flatten().tolist()
                zero = [(t, f) for t in range(length) for f in gone]
                assert len(gone) == int(0.4 * 32)
            assert torch.allclose(views[1, i], by_hand(tiny_model, ids, zero), atol=1e-5)
            assert torch.allclose(views[0, i], by_hand(tiny_model, ids, []), atol=1e-5)
            assert not torch.allclose(views[0, i], views[1, i], atol=1e-3)
