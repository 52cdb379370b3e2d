"""A title and its body, or a crop of it."""

import numpy as np
import pytest

from isotrope.text.corpus import Document
from isotrope.text.pairs.title_body import TitleBody

WORDS = [f"w{number}" for number in range(100)]
DOCUMENT = Document("A title", [" ".join(WORDS[:50]), " ".join(WORDS[50:])])


def test_a_title_finds_crops_of_its_body() -> None:
    pairs = TitleBody()(DOCUMENT, 4, np.random.default_rng(0))
    assert len(set(pairs)) == 4
    for title, body in pairs:
        assert title == "A title"
        assert body in " ".join(WORDS)
        assert 16 <= len(body.split()) <= 48
    assert pairs == TitleBody()(DOCUMENT, 4, np.random.default_rng(0))


def test_a_short_body_is_taken_whole_and_once() -> None:
    assert TitleBody()(Document("T", ["a few", "words"]), 3, np.random.default_rng(0)) == [("T", "a few words")]


def test_the_whole_body() -> None:
    pairs = TitleBody(whole=True)(DOCUMENT, 3, np.random.default_rng(0))
    assert pairs == [("A title", " ".join(WORDS))]


@pytest.mark.parametrize("document", [Document("", ["text"]), Document("T", []), Document("T", ["T"])])
def test_without_title_or_body_there_is_no_pair(document: Document) -> None:
    assert TitleBody()(document, 3, np.random.default_rng(0)) == []
    assert TitleBody().needs == "a title and a body"
