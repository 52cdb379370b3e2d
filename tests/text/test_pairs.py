"""The kinds of pairs that are drawn from a document: lengths, places, order, languages, short documents."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotrope.components.registry import component
from isotrope.errors import UserError
from isotrope.text.corpus import Document
from isotrope.text.pairs.crops import Crops, two_spans
from isotrope.text.pairs.neighbours import Neighbours
from isotrope.text.pairs.passages import Passages, passage
from isotrope.text.pairs.sentence import Sentence
from isotrope.text.pairs.spans import ANCHOR, POSITIVE, Spans, span_length
from isotrope.text.pairs.title_body import TitleBody

WORDS = [f"w{number}" for number in range(400)]
SENTENCES = [f"This is the sentence number {number} of the text." for number in range(30)]  # nine words each
IN_WORDS = Document(" ".join(WORDS[:5]), [" ".join(WORDS[5:40]), " ".join(WORDS[40:60])])
IN_SENTENCES = Document("A title", ["A heading", " ".join(SENTENCES[:4]), "Short one.", " ".join(SENTENCES[4:6])])
LONG = Document("A title", [" ".join(SENTENCES[:20]), " ".join(SENTENCES[20:])])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def of_words(*texts: str, title: str = "") -> Document:
    return Document(title, list(texts))


@pytest.mark.parametrize(
    ("kind", "options", "document", "needs"),
    [
        ("crops", {}, of_words(" ".join(WORDS[:8])), "9 words for two crops of 8 words or more"),
        ("crops", {"overlap": False}, of_words(" ".join(WORDS[:15])), "16 words for two crops of 8 words or more"),
        ("neighbours", {}, of_words(SENTENCES[0], title="A title of many words"), "two neighbouring sentences of"),
        ("neighbours", {"unit": "paragraph"}, of_words(SENTENCES[0]), "two neighbouring paragraphs of at least 5"),
        ("passages", {}, of_words("Too short."), "a passage of at least 5 words"),
        ("passages", {}, of_words(), "a passage of at least 5 words"),
        ("sentence", {"shortest": 5}, of_words(title="A title of some words"), "a sentence of at least 5 words"),
        ("spans", {}, of_words(" ".join(WORDS[:63])), "64 words, twice as many as the shortest span"),
        ("title_body", {}, of_words("text"), "a title and a body"),
        ("title_body", {}, of_words(title="T"), "a title and a body"),
        ("title_body", {}, of_words("T", title="T"), "a title and a body"),
    ],
)
def test_a_document_that_is_too_short_gives_none(
    kind: str, options: dict[str, Any], document: Document, needs: str
) -> None:
    maker = component("pairs", kind, **options)
    assert maker(document, 3, rng()) == []
    assert maker.needs.startswith(needs)


def test_impossible_options_are_refused() -> None:
    with pytest.raises(UserError, match=r"pairs.neighbours.language = 'German'"):
        component("pairs", "neighbours", language="German")
    for kind in ("crops", "passages", "spans", "title_body"):
        with pytest.raises(UserError, match=rf"pairs.{kind}.longest = 3 is less than shortest = \d+: raise longest"):
            component("pairs", kind, longest=3)


@pytest.mark.parametrize(
    ("maker", "document", "count"),
    [
        (Crops(), IN_WORDS, 5),
        (Neighbours(), IN_SENTENCES, 2),
        (Passages(), LONG, 60),
        (Sentence(), IN_SENTENCES, 3),
        (Spans(8, 50), of_words(" ".join(WORDS)), 4),
        (TitleBody(), IN_WORDS, 4),
    ],
)
def test_pairs_are_different_and_drawn_by_the_generator(maker: Any, document: Document, count: int) -> None:
    pairs: Sequence[Any] = maker(document, count, rng())
    assert len(set(pairs)) == len(pairs) == count
    assert pairs == maker(document, count, rng())
    assert pairs != maker(document, count, rng(1))


@given(
    shortest=st.integers(1, 9), more=st.integers(0, 9), extra=st.integers(0, 40), overlap=st.booleans(),
    seed=st.integers(0, 2**32),
)  # fmt: skip
def test_crops_lie_within_the_document(shortest: int, more: int, extra: int, overlap: bool, seed: int) -> None:
    count = 2 * shortest + extra
    spans = two_spans(count, shortest, shortest + more, overlap, rng(seed))
    for span in spans:
        assert 0 <= span.start < span.stop <= count
        assert shortest <= span.stop - span.start <= shortest + more
    first, second = sorted(spans, key=lambda span: span.start)
    assert overlap or first.stop <= second.start


def test_crops_are_drawn_from_all_that_are_possible() -> None:
    drawn = [two_spans(10, 2, 4, False, rng(seed)) for seed in range(3000)]
    assert {span.stop - span.start for spans in drawn for span in spans} == {2, 3, 4}
    assert {span.start for spans in drawn for span in spans} == set(range(9))
    assert abs(sum(a.start < b.start for a, b in drawn) / 3000 - 0.5) < 0.05, "either may come first"


def test_crops_are_texts_of_the_document() -> None:
    for anchor, positive in Crops()(IN_WORDS, 5, rng()):
        assert anchor != positive
        assert all(text in IN_WORDS.text and 8 <= len(text.split()) <= 24 for text in (anchor, positive))
    for anchor, positive in Crops(overlap=False)(IN_WORDS, 50, rng()):
        assert not set(anchor.split()) & set(positive.split())
    assert all(a != b for a, b in Crops()(of_words("so " * 30), 3, rng())), "of equal words, lengths differ"
    assert Crops(longest=8)(of_words("so " * 30), 3, rng()) == []
    letters = "".join(chr(0x4E00 + number) for number in range(60))
    for anchor, positive in Crops()(of_words(letters), 5, rng()):
        assert anchor in letters, "letters count if there are no spaces"
        assert 8 <= len(positive) <= 24


def test_neighbours_are_next_to_each_other_without_short_ones() -> None:
    pairs = Neighbours()(IN_SENTENCES, 99, rng())
    places = sorted(tuple(sorted(map(SENTENCES.index, pair))) for pair in pairs)
    assert places == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    forward = [SENTENCES.index(a) < SENTENCES.index(b) for a, b in pairs]
    assert {True, False} == set(forward), "the order in a pair is drawn"
    (pair,) = Neighbours(unit="paragraph")(IN_SENTENCES, 5, rng())
    assert set(pair) == {IN_SENTENCES.paragraphs[1], IN_SENTENCES.paragraphs[3]}
    assert Neighbours(shortest=1)(of_words("Same one. Same one."), 9, rng()) == [], "equal ones are no pair"


def test_a_passage_stops_at_a_whole_sentence() -> None:
    assert passage(SENTENCES, 3, 1, 99) == (SENTENCES[3], 9)
    assert passage(SENTENCES, 3, 10, 99) == (" ".join(SENTENCES[3:5]), 18)
    assert passage(SENTENCES, 3, 99, 30) == (" ".join(SENTENCES[3:6]), 27), "a fourth would be too much"
    assert passage(SENTENCES, 3, 99, 5) == (SENTENCES[3], 9), "one sentence is taken whole"
    assert passage(SENTENCES, 29, 99, 99) == (SENTENCES[29], 9)


def test_passages_have_all_lengths() -> None:
    drawn = [text for (text,) in Passages()(LONG, 60, rng())]
    words = np.array([len(text.split()) for text in drawn])
    assert words.min() <= 9
    assert 100 < words.max() <= 180
    assert np.mean(words <= 30) == pytest.approx(0.5, abs=0.15), "half are short: lengths are even on a log scale"
    assert all(text in " ".join(["A title", *SENTENCES]) for text in drawn)


def test_each_sentence_once_with_itself_but_for_short_ones() -> None:
    document = of_words(" ".join(SENTENCES[:4]), "Too short.", " ".join(SENTENCES[4:]), SENTENCES[0])
    assert sorted(Sentence()(document, 99, rng())) == sorted((one, one) for one in SENTENCES)


def test_a_title_finds_crops_of_its_body_or_all_of_it() -> None:
    for title, body in TitleBody()(LONG, 4, rng()):
        assert title == "A title"
        assert body in " ".join(SENTENCES)
        assert 16 <= len(body.split()) <= 48
    assert TitleBody()(of_words("a few", "words", title="T"), 3, rng()) == [("T", "a few words")], "once"
    assert TitleBody(whole=True)(LONG, 3, rng()) == [("A title", " ".join(SENTENCES))]


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
def test_positives_lie_where_they_are_asked_to(count: int, words: int, longest: int, place: Any, seed: int) -> None:
    rows = Spans(8, longest, place=place)(of_words(" ".join(WORDS[:words])), count, rng(seed))
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
    for skew, mean in ((ANCHOR, 4 / 6), (POSITIVE, 2 / 6)):  # the means of Beta(4, 2) and Beta(2, 4)
        lengths = [span_length(10, 110, skew, rng(seed)) for seed in range(2000)]
        assert np.mean(lengths) == pytest.approx(10 + 100 * mean - 0.5, abs=2)
    rows = Spans(8, 50)(of_words(" ".join(WORDS[9:]), title=" ".join(WORDS[:9])), 4, rng())
    spans = sorted(places(anchor) for anchor, *_ in rows)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
    assert rows == Spans(8, 50)(of_words(" ".join(WORDS)), 4, rng()), "the title is a part of the text"
