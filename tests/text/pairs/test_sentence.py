"""A sentence with itself."""

import numpy as np

from isotrope.text.corpus import Document
from isotrope.text.pairs.sentence import Sentence

SENTENCES = [f"This is the sentence number {number} of the text." for number in range(6)]
DOCUMENT = Document("A title", [" ".join(SENTENCES[:4]), "Too short.", " ".join(SENTENCES[4:]), SENTENCES[0]])


def test_each_sentence_once_with_itself_but_for_short_ones() -> None:
    pairs = Sentence()(DOCUMENT, 99, np.random.default_rng(0))
    assert sorted(pairs) == [(one, one) for one in SENTENCES]


def test_few_are_drawn() -> None:
    few = {Sentence()(DOCUMENT, 1, np.random.default_rng(seed))[0] for seed in range(30)}
    assert len(few) > 3
    assert Sentence()(Document("A title of some words", []), 3, np.random.default_rng(0)) == []
    assert Sentence(shortest=5).needs == "a sentence of at least 5 words"
