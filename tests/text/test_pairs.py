"""Pairs and queries drawn from documents: lengths, places, order, languages; their corpus, kept in
the cache.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.corpora import write
from helpers.refusals import refused
from isotrope.components.registry import component
from isotrope.text import read_text
from isotrope.text.corpus import Document, Documents
from isotrope.text.pair_corpus import PairMaker, TextPair, open_pairs
from isotrope.text.pairs.crops import Crops, two_spans
from isotrope.text.pairs.passages import Passages, passage
from isotrope.text.pairs.sentences import Neighbours, Sentence
from isotrope.text.pairs.spans import ANCHOR, POSITIVE, Spans, span_length
from isotrope.text.pairs.title_body import TitleBody
from isotrope.text.pseudo_queries import (
    HEADING,
    KINDS,
    MIXTURE,
    QUESTION,
    SENTENCE,
    SPAN,
    TITLE,
    pseudo_queries,
)

WORDS = [f"w{number}" for number in range(400)]
# nine words each
SENTENCES = [f"This is the sentence number {number} of the text." for number in range(30)]
IN_WORDS = Document(" ".join(WORDS[:5]), [" ".join(WORDS[5:40]), " ".join(WORDS[40:60])])
IN_SENTENCES = Document(
    "A title", ["A heading", " ".join(SENTENCES[:4]), "Short one.", " ".join(SENTENCES[4:6])]
)
LONG = Document("A title", [" ".join(SENTENCES[:20]), " ".join(SENTENCES[20:])])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def of_words(*texts: str, title: str = "") -> Document:
    return Document(title, list(texts))


@pytest.mark.parametrize(
    ("kind", "options", "document", "needs"),
    [
        ("crops", {}, of_words(" ".join(WORDS[:8])), "9 words for two crops of 8 words or more"),
        (
            "crops",
            {"overlap": False},
            of_words(" ".join(WORDS[:15])),
            "16 words for two crops of 8 words or more",
        ),
        (
            "neighbours",
            {},
            of_words(SENTENCES[0], title="A title of many words"),
            "two neighbouring sentences of",
        ),
        (
            "neighbours",
            {"unit": "paragraph"},
            of_words(SENTENCES[0]),
            "two neighbouring paragraphs of at least 5",
        ),
        ("passages", {}, of_words("Too short."), "a passage of at least 5 words"),
        ("passages", {}, of_words(), "a passage of at least 5 words"),
        (
            "sentence",
            {"shortest": 5},
            of_words(title="A title of some words"),
            "a sentence of at least 5 words",
        ),
        (
            "spans",
            {},
            of_words(" ".join(WORDS[:63])),
            "64 words, twice as many as the shortest span",
        ),
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
    with refused("impossible-value", "pairs.neighbours.language"):
        component("pairs", "neighbours", language="German")
    for kind in ("crops", "passages", "spans", "title_body"):
        with refused("longest-below-shortest", f"pairs.{kind}.longest"):
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
def test_pairs_are_different_and_drawn_by_the_generator(
    maker: Any, document: Document, count: int
) -> None:
    pairs: Sequence[Any] = maker(document, count, rng())
    assert len(set(pairs)) == len(pairs) == count
    assert pairs == maker(document, count, rng())
    assert pairs != maker(document, count, rng(1))


@given(
    shortest=st.integers(1, 9),
    more=st.integers(0, 9),
    extra=st.integers(0, 40),
    overlap=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_crops_lie_within_the_document(
    shortest: int, more: int, extra: int, overlap: bool, seed: int
) -> None:
    count = 2 * shortest + extra
    spans = two_spans(count, shortest, shortest + more, overlap, rng(seed))
    for span in spans:
        assert 0 <= span.start < span.stop <= count
        assert shortest <= span.stop - span.start <= shortest + more
    first, second = sorted(spans, key=lambda span: span.start)
    assert overlap or first.stop <= second.start


def test_crops_are_drawn_from_all_that_are_possible() -> None:
    drawn = [two_spans(10, 2, 4, False, rng(seed)) for seed in range(1000)]
    assert {span.stop - span.start for spans in drawn for span in spans} == {2, 3, 4}
    assert {span.start for spans in drawn for span in spans} == set(range(9))
    assert abs(sum(a.start < b.start for a, b in drawn) / 1000 - 0.5) < 0.05, (
        "either may come first"
    )


def test_crops_are_texts_of_the_document() -> None:
    for anchor, positive in Crops()(IN_WORDS, 5, rng()):
        assert anchor != positive
        assert all(
            text in IN_WORDS.text and 8 <= len(text.split()) <= 24 for text in (anchor, positive)
        )
    for anchor, positive in Crops(overlap=False)(IN_WORDS, 50, rng()):
        assert not set(anchor.split()) & set(positive.split())
    assert all(a != b for a, b in Crops()(of_words("so " * 30), 3, rng())), (
        "of equal words, lengths differ"
    )
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
    assert Neighbours(shortest=1)(of_words("Same one. Same one."), 9, rng()) == [], (
        "equal ones are no pair"
    )


def test_a_passage_stops_at_a_whole_sentence() -> None:
    assert passage(SENTENCES, 3, 1, 99) == (SENTENCES[3], 9)
    assert passage(SENTENCES, 3, 10, 99) == (" ".join(SENTENCES[3:5]), 18)
    assert passage(SENTENCES, 3, 99, 30) == (" ".join(SENTENCES[3:6]), 27), (
        "a fourth would be too much"
    )
    assert passage(SENTENCES, 3, 99, 5) == (SENTENCES[3], 9), "one sentence is taken whole"
    assert passage(SENTENCES, 29, 99, 99) == (SENTENCES[29], 9)


def test_passages_have_all_lengths() -> None:
    drawn = [text for (text,) in Passages()(LONG, 60, rng())]
    words = np.array([len(text.split()) for text in drawn])
    assert words.min() <= 9 < 100 < words.max() <= 180
    assert np.mean(words <= 30) == pytest.approx(0.5, abs=0.15), (
        "half are short: lengths are even on a log scale"
    )
    assert all(text in LONG.text for text in drawn)


def test_each_sentence_once_with_itself_but_for_short_ones() -> None:
    document = of_words(
        " ".join(SENTENCES[:4]), "Too short.", " ".join(SENTENCES[4:]), SENTENCES[0]
    )
    assert sorted(Sentence()(document, 99, rng())) == sorted((one, one) for one in SENTENCES)


def test_a_title_finds_crops_of_its_body_or_all_of_it() -> None:
    for title, body in TitleBody()(LONG, 4, rng()):
        assert title == "A title"
        assert body in " ".join(SENTENCES)
        assert 16 <= len(body.split()) <= 48
    assert TitleBody()(of_words("a few", "words", title="T"), 3, rng()) == [("T", "a few words")], (
        "once"
    )
    assert TitleBody(whole=True)(LONG, 3, rng()) == [("A title", " ".join(SENTENCES))]


def places(text: str) -> tuple[int, int]:
    """From the first word to behind the last, of a text of WORDS."""
    numbers = [int(word[1:]) for word in text.split()]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "words in a row"
    return numbers[0], numbers[-1] + 1


@settings(deadline=None)
@given(
    count=st.integers(1, 4),
    words=st.integers(0, 400),
    longest=st.integers(8, 90),
    place=st.sampled_from(["near", "adjacent", "subsumed"]),
    seed=st.integers(0, 2**32),
)
def test_positives_lie_where_they_are_asked_to(
    count: int, words: int, longest: int, place: Any, seed: int
) -> None:
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
    # the means of Beta(4, 2) and Beta(2, 4)
    for skew, mean in ((ANCHOR, 4 / 6), (POSITIVE, 2 / 6)):
        lengths = [span_length(10, 110, skew, rng(seed)) for seed in range(2000)]
        assert np.mean(lengths) == pytest.approx(10 + 100 * mean - 0.5, abs=2)
    rows = Spans(8, 50)(of_words(" ".join(WORDS[9:]), title=" ".join(WORDS[:9])), 4, rng())
    spans = sorted(places(anchor) for anchor, *_ in rows)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
    assert rows == Spans(8, 50)(of_words(" ".join(WORDS)), 4, rng()), (
        "the title is a part of the text"
    )


@dataclass(frozen=True)
class Numbered:
    """Document "3 …" has three pairs at most, in an order that is drawn."""

    word: str = "pair"
    needs: str = "a number"

    def __call__(
        self, document: Document, count: int, generator: np.random.Generator
    ) -> list[TextPair]:
        order = generator.permutation(int(document.text.split()[0]))[:count]
        return [
            (f"{document.text} {self.word}", f"{document.text} other {number}") for number in order
        ]


def opened(folder: Path, *texts: str) -> Documents:
    return read_text(
        write(folder / "d.jsonl", "\n".join(json.dumps({"text": text}) for text in texts))
    ).documents()


def documents(folder: Path, *counts: int) -> Documents:
    return opened(folder, *(f"{count} of document {number}" for number, count in enumerate(counts)))


def test_rounds_follow_one_another(tmp_path: Path) -> None:
    corpus = open_pairs(
        documents(tmp_path, 3, 0, 2, 1), Numbered(), cache=tmp_path / "pairs", rounds=4
    )
    assert corpus.rounds == (3, 2, 1)
    assert [text.split()[3] for text in corpus.dataset["text"]] == ["0", "2", "3", "0", "2", "0"]
    assert corpus.dataset["label"][:] == list(range(6))
    assert len(set(corpus.dataset["positive"])) == 6
    assert corpus.texts(np.array([4, 1])) == [corpus.dataset[4]["text"], corpus.dataset[1]["text"]]
    assert (
        str(corpus.report).splitlines()[-1]
        == "  6 pairs drawn from 3 of 4 documents (1 do not have a number)"
    )


def test_held_out_documents_give_no_pair(tmp_path: Path) -> None:
    found = documents(tmp_path, *([2] * 30))
    corpus = open_pairs(found, Numbered(), cache=tmp_path / "pairs", rounds=2, seed=7, held_out=10)
    used = {int(text.split()[3]) for text in corpus.dataset["text"]}
    assert used == set(found.split(10, 7)[0].tolist())
    assert str(corpus.report).endswith(
        "40 pairs drawn from 20 of 20 documents; 10 documents are held out"
    )


def test_pairs_are_found_again_and_change_with_all_that_decides_them(tmp_path: Path) -> None:
    found, cache = documents(tmp_path, 3, 3, 3, 3, 3), tmp_path / "pairs"
    first = open_pairs(found, Numbered(), cache=cache)
    made = sorted(cache.glob("*/*.arrow"))
    assert (
        open_pairs(found, Numbered(), cache=cache).dataset["positive"][:]
        == first.dataset["positive"][:]
    )
    assert sorted(cache.glob("*/*.arrow")) == made
    others = [open_pairs(found, Numbered("x"), cache=cache)]
    others += [
        open_pairs(found, Numbered(), cache=cache, **{name: 1}) for name in ("seed", "held_out")
    ]
    others.append(open_pairs(found, Numbered(), cache=cache, rounds=2))
    assert len({first.key, *(each.key for each in others)}) == 5
    assert others[1].dataset["positive"][:] != first.dataset["positive"][:]


def test_too_few_pairs_are_one_clear_line(tmp_path: Path) -> None:
    for counts, said in ((0, 0, 0), "0 of 3 documents have"), ((0, 2), "1 of 2 documents has"):
        with refused("too-few-pairs", said):
            open_pairs(documents(tmp_path, *counts), Numbered(), cache=tmp_path / "pairs")


@pytest.mark.parametrize(
    ("maker", "columns", "said"),
    [
        (Passages(), ("text",), "  6 texts drawn from 2 of 2 documents"),
        (Crops(), ("text", "positive"), "  6 pairs drawn from 2 of 2 documents"),
        (Spans(8, 40), ("text", "positive", "positive_1"), "  6 pairs drawn from 2 of 2 documents"),
    ],
)
def test_single_texts_and_further_positives_have_their_columns(
    tmp_path: Path, maker: PairMaker, columns: tuple[str, ...], said: str
) -> None:
    found = opened(tmp_path, " ".join(SENTENCES), " ".join(SENTENCES[10:]))
    corpus = open_pairs(found, maker, cache=tmp_path / "pairs", rounds=3)
    assert corpus.columns == columns
    assert corpus.dataset.column_names == [*columns, "label"]
    assert corpus.rounds == (2, 2, 2)
    assert str(corpus.report).splitlines()[-1] == said


PAGE = of_words(
    "Within two weeks",
    "You may send back what you bought within fourteen days, and we pay the postage.",
    "Who pays? We do, in every country of the union.",
    title="Returning goods",
)


def test_a_page_gives_every_kind() -> None:
    asked = pseudo_queries([PAGE], KINDS)
    found = {
        kind: [text for text, of in zip(asked.texts, asked.kinds, strict=True) if of == kind]
        for kind in KINDS
    }
    assert (found[TITLE], found[HEADING], found[QUESTION]) == (
        [PAGE.title],
        PAGE.paragraphs[:1],
        ["Who pays?"],
    )
    assert len(found[SENTENCE]) <= 1 <= len(found[SPAN]) <= 2
    assert all(8 <= len(span.split()) <= 19 and span in PAGE.text for span in found[SPAN])
    assert (
        TITLE
        not in pseudo_queries(
            [of_words(title="A title of some ten words which is all there is here")]
        ).kinds
    )


def test_they_know_their_documents() -> None:
    found = pseudo_queries([of_words("one two three four five six"), PAGE])
    assert set(found.own) == {0, 1}
    assert len(found.texts) == len(found.kinds) == len(found.own)
    assert found.sample(2, seed=0) == found.sample(2, seed=0)
    assert len(found.sample(2, seed=0).texts) == 2


@given(
    st.lists(st.text(alphabet="ab .?\u4e00", max_size=60), min_size=1, max_size=4),
    st.integers(0, 9),
)
def test_any_text_gives_equal_queries_for_equal_seeds(paragraphs: list[str], seed: int) -> None:
    documents = [of_words(*(" ".join(one.split()) for one in paragraphs if one.strip()))]
    one, two = (pseudo_queries(documents, MIXTURE, seed) for _ in range(2))
    assert one == two
    assert all(text.strip() for text in one.texts)
    assert np.all(one.own == 0)
