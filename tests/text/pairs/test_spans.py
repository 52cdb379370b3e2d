"""Anchors and positives of one document: places, lengths, several positives, short documents."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora import write
from isotrope.text.corpus import Document
from isotrope.text.opened import open as text_open
from isotrope.text.pair_corpus import open_pairs
from isotrope.text.pairs.spans import ANCHOR, POSITIVE, Spans, near, span_length

WORDS = [f"w{number}" for number in range(400)]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def places(text: str) -> tuple[int, int]:
    """From the first word to behind the last, of a text of WORDS."""
    numbers = [int(word[1:]) for word in text.split()]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "words in a row"
    return numbers[0], numbers[-1] + 1


@settings(deadline=None)
@given(
    count=st.integers(1, 4), words=st.integers(0, 400), longest=st.integers(8, 90),
    place=st.sampled_from(["near", "adjacent", "subsumed"]), seed=st.integers(0, 2**32),
)  # fmt: skip
def test_positives_lie_where_they_are_asked_to(count: int, words: int, longest: int, place: str, seed: int) -> None:
    rows = Spans(8, longest, place=place)(Document("", [" ".join(WORDS[:words])]), count, rng(seed))  # type: ignore[arg-type]
    assert len(rows) == min(count, words // 16)
    for anchor, *positives in rows:
        begin, end = places(anchor)
        assert 8 <= end - begin <= longest
        assert len(positives) == 2
        for first, last in map(places, positives):
            assert last - first <= longest
            assert {
                "near": last >= begin and first <= end,
                "adjacent": last == begin or first == end,
                "subsumed": begin <= first and last <= end,
            }[place]


def test_anchors_are_long_positives_short_and_anchors_share_no_words() -> None:
    anchors = [span_length(10, 110, ANCHOR, rng(seed)) for seed in range(2000)]
    positives = [span_length(10, 110, POSITIVE, rng(seed)) for seed in range(2000)]
    assert np.mean(anchors) == pytest.approx(10 + 100 * 4 / 6 - 0.5, abs=2), "the mean of Beta(4, 2) is 4/6"
    assert np.mean(positives) == pytest.approx(10 + 100 * 2 / 6 - 0.5, abs=2)
    rows = Spans(8, 50)(Document(" ".join(WORDS[:9]), [" ".join(WORDS[9:])]), 4, rng())
    spans = sorted(places(anchor) for anchor, *_ in rows)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
    assert rows == Spans(8, 50)(Document("", [" ".join(WORDS)]), 4, rng()), "the title is a part of the text"


def test_near_reaches_from_one_side_of_the_anchor_to_the_other() -> None:
    found = {near(slice(40, 50), 100, 10, 10, "near", rng(seed)).start for seed in range(2000)}
    assert found == set(range(30, 51))


def test_further_positives_are_columns(tmp_path: Path) -> None:
    lines = (json.dumps({"text": " ".join(WORDS[begin : begin + 200])}) + "\n" for begin in (0, 200))
    documents = text_open(write(tmp_path / "d.jsonl", "".join(lines))).documents()
    made = open_pairs(documents, Spans(8, 40), cache=tmp_path / "pairs", rounds=2)
    assert made.columns == ("text", "positive", "positive_1")
    assert made.rounds == (2, 2)
    assert made.dataset.column_names == [*made.columns, "label"]
