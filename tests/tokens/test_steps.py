"""Tokens erased, reordered, said twice or left out: the words and the frame stay, and every draw is
as likely.
"""

from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from helpers.token_batches import CLS, SEP, features, read, seeded
from helpers.words import sentences
from isotrope import load
from isotrope.contract.features import LAYER_FEATURES, LAYER_TOKENS, POSITIONS
from isotrope.objective.passes import Passes
from isotrope.tokens.cutoff import Cutoff, LayerCutoff, cutoff
from isotrope.tokens.repeat import Delete, Insert, Repeat, deleted, repeats
from isotrope.tokens.shuffle import PositionShuffle, Reverse, Shuffle
from isotrope.types import TokenStep

lengths = st.lists(st.integers(0, 9), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(lengths, st.booleans(), st.booleans(), st.floats(0, 1), st.integers(0, 10_000))
def test_cutoff_erases_a_share(
    counts: list[int], left: bool, span: bool, ratio: float, seed: int
) -> None:
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
    for unit, name in (
        ("token", "attention_mask"),
        ("span", "attention_mask"),
        ("feature", "feature_keep"),
    ):
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
def test_feature_cutoff_erases_a_share_of_the_features(
    count: int, width: int, ratio: float, seed: int
) -> None:
    batch = {**features([3] * count), "feature_keep": torch.ones(count, 1, width)}
    after = Cutoff("feature", ratio)(batch, seeded(seed))
    assert after["feature_keep"].shape == (count, 1, width)
    assert ((after["feature_keep"] == 0).sum(dim=-1) == int(ratio * width)).all()
    assert ((after["feature_keep"] == 0) | (after["feature_keep"] == 1)).all()
    assert all(after[key] is batch[key] for key in ("input_ids", "attention_mask"))
    assert batch["feature_keep"].eq(1).all()


@settings(max_examples=40, deadline=None)
@given(lengths, st.floats(0, 1), st.floats(0, 1), st.integers(0, 10_000))
def test_nested_spans_lie_within_each_other(
    counts: list[int], ratio: float, other: float, seed: int
) -> None:
    """Both draw the same, whatever else was drawn between."""
    batch, generator, gone = features(counts), seeded(seed), []
    for share in sorted([ratio, other]):
        torch.rand(3, generator=generator)
        rows = read(Cutoff("nested", share)(batch, generator))
        gone.append(
            [
                set(range(1, count + 1)) - set(tokens)
                for tokens, count in zip(rows, counts, strict=True)
            ]
        )
    assert all(less <= more for less, more in zip(*gone, strict=True))


def by_hand(folder: Path, ids: Tensor, zero: list[tuple[int, int | None]]) -> Tensor:
    """[CLS] of one sentence (L,), without padding. ``zero``: (row, column) of the embedding layer;
    None: all.
    """
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
        views, _, readings = Passes(model, [(LayerCutoff(unit, 0.4), [1])], seeded()).views(
            [column], 2
        )
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


@settings(max_examples=40, deadline=None)
@given(lengths, st.booleans(), st.integers(0, 10_000))
def test_shuffling_keeps_the_words_and_the_frame(counts: list[int], left: bool, seed: int) -> None:
    batch = features(counts, left)
    after = Shuffle()(batch, seeded(seed))
    assert after["attention_mask"].equal(batch["attention_mask"])
    assert after["input_ids"][batch["attention_mask"] == 0].eq(0).all()
    for tokens, count in zip(read(after), counts, strict=True):
        assert (tokens[0], tokens[-1]) == (CLS, SEP)
        assert sorted(tokens[1:-1]) == list(range(1, count + 1))


def test_every_order_is_as_likely() -> None:
    batch = features([3] * 6000)
    orders = Counter(tuple(tokens[1:-1]) for tokens in read(Shuffle()(batch, seeded())))
    assert len(orders) == 6
    assert all(abs(number - 1000) < 150 for number in orders.values())  # five standard deviations


@pytest.mark.parametrize(
    "step",
    [
        Shuffle(),
        Reverse(),
        Repeat(1.0),
        Delete(1.0),
        Cutoff(ratio=1.0),
        Insert(1.0),
        Delete(1.0, True),
    ],
)
def test_the_tokens_of_a_prompt_are_left_alone(step: TokenStep) -> None:
    """Its length counts [CLS], as sentence-transformers has it; a pooling may leave out so many."""
    for left in (False, True):
        batch = features([9, 4], left) | {"prompt_length": 4}
        for seed in range(20):
            assert all(tokens[:4] == [CLS, 1, 2, 3] for tokens in read(step(batch, seeded(seed))))


@settings(max_examples=40, deadline=None)
@given(lengths, st.booleans())
def test_the_inner_tokens_are_turned_round(counts: list[int], left: bool) -> None:
    batch = features(counts, left)
    after = Reverse()(batch, seeded())
    assert read(after) == [[CLS, *range(count, 0, -1), SEP] for count in counts]
    assert read(Reverse()(after, seeded())) == read(batch), "twice is as before"


def with_positions(counts: list[int], left: bool = False) -> dict[str, torch.Tensor]:
    batch = features(counts, left)
    return batch | {POSITIONS: torch.arange(batch["input_ids"].shape[1]).repeat(len(counts), 1)}


@pytest.mark.parametrize("left", [False, True])
def test_real_tokens_share_their_positions_out_anew(left: bool) -> None:
    batch = with_positions([9, 4], left)
    after = PositionShuffle()(batch, seeded())
    for mask, old, new in zip(
        batch["attention_mask"].bool(), batch[POSITIONS], after[POSITIONS], strict=True
    ):
        assert sorted(new[mask].tolist()) == old[mask].tolist()
        assert new[mask].tolist() != old[mask].tolist()
        assert new[~mask].tolist() == old[~mask].tolist()
    assert all(after[name] is batch[name] for name in ("input_ids", "attention_mask"))


@pytest.mark.parametrize("packed", [True, False])
def test_equals_bert_with_these_positions(tiny_model: Path, packed: bool) -> None:
    model = load(tiny_model, "cls", dropout=0.0, device="cpu", packed=packed).eval()
    bert = load(tiny_model, "cls", dropout=0.0, device="cpu", packed=False).eval()[0].auto_model
    column = model.preprocess(sentences(4))
    with torch.no_grad():
        views, _, readings = Passes(model, [(PositionShuffle(), [1])], seeded()).views([column], 2)
        for i, length in enumerate(column["attention_mask"].sum(dim=1).tolist()):
            ids, positions = (
                readings[1].read[name][i : i + 1, :length] for name in ("input_ids", POSITIONS)
            )
            shuffled = bert(input_ids=ids, position_ids=positions).last_hidden_state[0, 0]
            assert torch.allclose(views[1, i], shuffled, atol=1e-5)
            assert torch.allclose(
                views[0, i], bert(input_ids=ids).last_hidden_state[0, 0], atol=1e-5
            )
            assert not torch.allclose(views[0, i], views[1, i], atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(lengths, st.booleans(), st.floats(0, 1), st.integers(0, 10_000))
def test_what_stays_is_in_order_and_moves_together(
    counts: list[int], left: bool, ratio: float, seed: int
) -> None:
    after = Delete(ratio)(features(counts, left), seeded(seed))
    assert {value.shape for value in after.values()} == {after["input_ids"].shape}
    assert after["input_ids"][after["attention_mask"] == 0].eq(0).all()
    assert torch.equal(
        after["attention_mask"], after["attention_mask"].sort(dim=1, descending=True).values
    )
    assert after["attention_mask"].sum(dim=1).max() == after["input_ids"].shape[1]
    for tokens, count in zip(read(after), counts, strict=True):
        assert (tokens[0], tokens[-1]) == (CLS, SEP)
        assert tokens[1:-1] == sorted(set(tokens[1:-1]) & set(range(1, count + 1)))
        assert len(tokens) > 2 or not count, "one token of the sentence stays"


def test_the_ratio_is_a_probability() -> None:
    among = torch.ones(4000, 10, dtype=torch.bool)
    gone = deleted(among, 0.6, seeded())
    assert abs(gone.float().mean() - 0.6) < 0.01
    assert gone.sum(dim=1).max() == 9
    assert not deleted(among, 0.0, seeded()).any()
    assert deleted(among, 1.0, seeded()).sum(dim=1).eq(9).all()


@settings(max_examples=40, deadline=None)
@given(lengths, st.booleans(), st.floats(0, 1), st.integers(2, 30), st.integers(0, 10_000))
def test_repetition_keeps_the_order(
    counts: list[int], left: bool, ratio: float, room: int, seed: int
) -> None:
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
        assert len(tokens) - count - 2 <= max(2, int(ratio * count))
        assert len(tokens) <= max(counts) + room


def test_numbers_of_repeated_words() -> None:
    """Uniform on 0 … max(2, ⌊.32 · 10⌋ = 3), and never beyond the encoder's positions."""
    among, room = torch.ones(8000, 10, dtype=torch.bool), torch.ones(8000, 1)
    numbers = Counter(repeats(among, 0.32, 500 * room, seeded()).sum(dim=1).tolist())
    assert set(numbers) == {0, 1, 2, 3}
    assert all(abs(number - 2000) < 200 for number in numbers.values())
    assert int(repeats(among, 0.32, room, seeded()).sum(dim=1).max()) == 1
    assert not repeats(among, 0.32, -4 * room, seeded()).any()
    few = Counter(repeats(among, 0.32, 2 * room, seeded()).sum(dim=1).tolist())
    assert set(few) == {0, 1, 2}
    assert all(abs(number - 8000 / 3) < 250 for number in few.values()), (
        "as likely too where the room ends them"
    )
    said = Repeat(1.0, most=2)(features([10] * 50), seeded())["attention_mask"].sum(dim=1) - 12
    assert set(said.tolist()) == {0, 1, 2}


@settings(max_examples=40, deadline=None)
@given(lengths, st.booleans(), st.floats(0, 1), st.integers(2, 30), st.integers(0, 10_000))
def test_exact_numbers_of_tokens(
    counts: list[int], left: bool, ratio: float, room: int, seed: int
) -> None:
    """What PCL's code does, sentence by sentence: the old tokens keep their order, whatever comes
    between or goes.
    """
    batch, longest = features(counts, left), max(counts) + room
    more, less = (
        Insert(ratio, max_length=longest)(batch, seeded(seed)),
        Delete(ratio, True)(batch, seeded(seed)),
    )
    for after in (more, less):
        assert {value.shape for value in after.values()} == {after["input_ids"].shape}
    for one, other, count in zip(read(more), read(less), counts, strict=True):
        asked, words = round(ratio * count), range(1, count + 1)
        assert (one[0], one[-1], other[0], other[-1]) == (CLS, SEP, CLS, SEP)
        assert len(one) == count + 2 + min(asked, longest - count - 2)
        assert set(one[1:-1]) <= set(words)
        rest = iter(one)
        assert all(word in rest for word in words), "in order"
        assert other[1:-1] == sorted(set(other[1:-1]))
        assert len(other) - 2 == count - min(asked, max(count - 1, 0))


def test_every_place_and_token_is_as_likely() -> None:
    """Two old tokens and one new: three places of each of two tokens."""
    found = Counter(
        tuple(tokens[1:-1]) for tokens in read(Insert(0.5)(features([2] * 6000), seeded()))
    )
    # 1 1 2 and 1 2 2 come from two places each
    expected = {(1, 1, 2): 2000, (1, 2, 1): 1000, (2, 1, 2): 1000, (1, 2, 2): 2000}
    assert found.keys() == expected.keys()
    assert all(abs(found[row] - number) < 200 for row, number in expected.items())
