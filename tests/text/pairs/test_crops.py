"""Two crops of one document: lengths, places, overlap, languages without spaces."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotrope.text.corpus import Document
from isotrope.text.pairs.crops import Crops, two_spans

WORDS = [f"w{number}" for number in range(60)]
DOCUMENT = Document(" ".join(WORDS[:5]), [" ".join(WORDS[5:40]), " ".join(WORDS[40:])])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(
    shortest=st.integers(1, 9), more=st.integers(0, 9), extra=st.integers(0, 40), overlap=st.booleans(),
    seed=st.integers(0, 2**32),
)  # fmt: skip
def test_spans_lie_within_the_document(shortest: int, more: int, extra: int, overlap: bool, seed: int) -> None:
    count = 2 * shortest + extra
    spans = two_spans(count, shortest, shortest + more, overlap, rng(seed))
    for span in spans:
        assert 0 <= span.start < span.stop <= count
        assert shortest <= span.stop - span.start <= shortest + more
    first, second = sorted(spans, key=lambda span: span.start)
    assert overlap or first.stop <= second.start


def test_lengths_and_places_are_drawn_from_all_that_are_possible() -> None:
    drawn = [two_spans(10, 2, 4, False, rng(seed)) for seed in range(3000)]
    assert {span.stop - span.start for spans in drawn for span in spans} == {2, 3, 4}
    assert {span.start for spans in drawn for span in spans} == set(range(9))
    assert abs(sum(a.start < b.start for a, b in drawn) / 3000 - 0.5) < 0.05, "either may come first"


def test_a_document_gives_different_pairs_of_its_words() -> None:
    pairs = Crops()(DOCUMENT, 5, rng())
    assert len(set(pairs)) == 5
    for anchor, positive in pairs:
        assert anchor != positive
        for text in (anchor, positive):
            assert text in " ".join(WORDS)
            assert 8 <= len(text.split()) <= 24
    assert pairs == Crops()(DOCUMENT, 5, rng())
    assert pairs != Crops()(DOCUMENT, 5, rng(1))


def test_without_overlap_no_word_is_shared() -> None:
    for anchor, positive in Crops(overlap=False)(DOCUMENT, 50, rng()):
        assert not set(anchor.split()) & set(positive.split())


@pytest.mark.parametrize(("options", "fewest"), [({}, 9), ({"overlap": False}, 16), ({"shortest": 3}, 4)])
def test_a_short_document_gives_none(options: dict[str, int], fewest: int) -> None:
    maker = Crops(**options)  # type: ignore[arg-type]
    assert maker(Document("", [" ".join(WORDS[: fewest - 1])]), 2, rng()) == []
    assert len(maker(Document("", [" ".join(WORDS[:fewest])]), 1, rng())) == 1
    assert maker.needs.startswith(f"{fewest} words for two crops of ")


def test_a_document_of_equal_words_gives_pairs_that_differ() -> None:
    assert all(a != b for a, b in Crops()(Document("", ["so " * 30]), 3, rng()))
    assert Crops(longest=8)(Document("", ["so " * 30]), 3, rng()) == []


def test_letters_count_where_there_are_no_spaces() -> None:
    text = "".join(chr(0x4E00 + number) for number in range(60))
    for anchor, positive in Crops()(Document("", [text]), 5, rng()):
        assert anchor in text
        assert 8 <= len(positive) <= 24
