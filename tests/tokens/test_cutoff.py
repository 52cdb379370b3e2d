"""Token, span and feature cutoff: what is erased, and that a real encoder does not see it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import sentences
from isotrope import Objective, component, load
from isotrope.errors import UserError
from isotrope.terms.infonce import InfoNCE
from isotrope.tokens.cutoff import Cutoff, cutoff, feature_cutoff
from isotrope.types import TokenStep
from token_batches import CLS, SEP, features, read, seeded

lengths = st.lists(st.integers(0, 9), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(lengths, st.booleans(), st.booleans(), st.floats(0, 1), st.integers(0, 10_000))
def test_cutoff_erases_a_share(counts: list[int], left: bool, span: bool, ratio: float, seed: int) -> None:
    batch = features(counts, left)
    after = Cutoff("span" if span else "token", ratio)(batch, seeded(seed))
    assert after["input_ids"].equal(batch["input_ids"])
    for tokens, count in zip(read(after), counts, strict=True):
        assert tokens[0] == CLS
        assert tokens[-1] == SEP
        gone = sorted(set(range(1, count + 1)) - set(tokens))
        assert len(gone) == int(torch.tensor(ratio, dtype=torch.float32) * count)
        if span and gone:
            assert gone == list(range(gone[0], gone[-1] + 1))


@pytest.mark.parametrize("span", [False, True])
def test_every_place_is_erased_alike(span: bool) -> None:
    mask = torch.ones(6000, 5, dtype=torch.long)
    erased = (cutoff(mask, 1 / 3, span, seeded()) == 0).sum(dim=0).tolist()
    assert erased[0] == erased[-1] == 0
    assert sum(erased) == 6000
    assert all(abs(number - 2000) < 200 for number in erased[1:-1])  # five standard deviations


@pytest.mark.parametrize("step", [Cutoff(ratio=0.4), Cutoff("span", 0.4), Cutoff("nested", 0.4)])
def test_a_draw_is_a_function_of_the_generator(step: TokenStep) -> None:
    batch = features([9, 9, 9, 9])
    kept = {key: value.clone() for key, value in batch.items()}
    first, again, other = (read(step(batch, seeded(seed))) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert all(batch[key].equal(kept[key]) for key in batch)  # the other passes read the same features


@pytest.mark.parametrize("options", [{"ratio": 0.5}, {"unit": "span", "ratio": 0.5}])
def test_a_real_encoder_reads_them(tiny_model: Path, options: dict[str, object]) -> None:
    """One pass changes, the other does not; what is erased has no influence."""
    model = load(tiny_model, "mean", dropout=0.0, device="cpu").eval()
    column = model.preprocess(sentences(4))
    step = component("tokens", "cutoff", **options)
    views = Objective(model, {"infonce": InfoNCE()}, tokens=[(step, [1])]).encode([column], None)
    assert torch.allclose(views.stack[0], model.encode(sentences(4), convert_to_tensor=True), atol=1e-5)
    assert not torch.allclose(views.stack[1], views.stack[0], atol=1e-3)
    changed = step(dict(column), seeded())
    erased = changed["attention_mask"] != column["attention_mask"]
    blank = {**changed, "input_ids": changed["input_ids"].masked_fill(erased, 7)}
    embedded = [model(dict(batch))["sentence_embedding"] for batch in (changed, blank)]
    assert torch.allclose(embedded[0], embedded[1], atol=1e-6)


def test_impossible_settings_are_refused() -> None:
    for options in ({"ratio": 1.5}, {"unit": "word"}):
        with pytest.raises(UserError, match=r"tokens\.cutoff\."):
            component("tokens", "cutoff", **options)


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


def test_every_feature_is_erased_alike_and_sentences_differ() -> None:
    keep = feature_cutoff(torch.ones(6000, 1, 6), 1 / 3, seeded())
    numbers = (keep == 0).sum(dim=(0, 1)).tolist()
    assert all(abs(number - 2000) < 200 for number in numbers)  # five standard deviations
    assert len({tuple(row) for row in keep[:, 0].tolist()}) == 15, "all choices of two of six"


def test_the_tokens_of_a_prompt_are_left_alone() -> None:
    """Its length counts [CLS], as sentence-transformers has it; a pooling may leave out so many."""
    for left in (False, True):
        batch = features([9, 4], left) | {"prompt_length": 4}
        for seed in range(20):
            assert all(tokens[:4] == [CLS, 1, 2, 3] for tokens in read(Cutoff(ratio=1.0)(batch, seeded(seed))))


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
