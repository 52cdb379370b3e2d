"""Neighbouring sentences and paragraphs."""

import numpy as np
import pytest

from isotrope.components.registry import component
from isotrope.errors import UserError
from isotrope.text.corpus import Document
from isotrope.text.pairs.neighbours import Neighbours

SENTENCES = [f"This is the sentence number {number} of the text." for number in range(6)]
DOCUMENT = Document("A title", ["A heading", " ".join(SENTENCES[:4]), "Short one.", " ".join(SENTENCES[4:])])


def test_sentences_next_to_each_other_without_short_ones() -> None:
    pairs = Neighbours()(DOCUMENT, 99, np.random.default_rng(0))
    places = sorted(tuple(sorted(map(SENTENCES.index, pair))) for pair in pairs)
    assert places == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    forward = [SENTENCES.index(a) < SENTENCES.index(b) for a, b in pairs]
    assert {True, False} == set(forward), "the order in a pair is drawn"


def test_pairs_are_different_and_drawn() -> None:
    maker = Neighbours()
    few = [maker(DOCUMENT, 2, np.random.default_rng(seed)) for seed in range(20)]
    assert all(len({frozenset(pair) for pair in pairs}) == 2 for pairs in few)
    assert len({frozenset(map(frozenset, pairs)) for pairs in few}) > 3
    assert few[0] == maker(DOCUMENT, 2, np.random.default_rng(0))


def test_paragraphs() -> None:
    maker = Neighbours(unit="paragraph")
    (pair,) = maker(DOCUMENT, 5, np.random.default_rng(0))
    assert set(pair) == {DOCUMENT.paragraphs[1], DOCUMENT.paragraphs[3]}
    assert maker.needs == "two neighbouring paragraphs of at least 5 words"


def test_a_document_of_one_sentence_gives_none() -> None:
    assert Neighbours()(Document("A title of quite a few words", SENTENCES[:1]), 3, np.random.default_rng(0)) == []


def test_languages_have_rules_of_their_own() -> None:
    text = "Am 3. Mai kam der gute Dr. Müller z. B. nach Berlin. Dort war es im Sommer schön und ruhig."
    german = Neighbours(language="de")(Document("", [text]), 9, np.random.default_rng(0))
    assert len(german) == 1


def test_impossible_options_are_refused() -> None:
    with pytest.raises(UserError, match=r"pairs.neighbours.unit = 'word' is not possible"):
        component("pairs", "neighbours", unit="word")
    with pytest.raises(UserError, match="language"):
        component("pairs", "neighbours", language="German")
