"""Passages: whole sentences, of all lengths, each once; as a corpus they are single texts."""

import json
from pathlib import Path

import numpy as np
import pytest

from corpora import write
from isotrope.components.registry import component
from isotrope.errors import UserError
from isotrope.text.corpus import Document
from isotrope.text.opened import open as text_open
from isotrope.text.pair_corpus import open_pairs
from isotrope.text.pairs.passages import Passages, passage

SENTENCES = [f"This is the sentence number {number} of the text." for number in range(30)]  # nine words each
DOCUMENT = Document("A title", [" ".join(SENTENCES[:20]), " ".join(SENTENCES[20:])])


def test_a_passage_stops_at_a_whole_sentence() -> None:
    assert passage(SENTENCES, 3, 1, 99) == (SENTENCES[3], 9)
    assert passage(SENTENCES, 3, 10, 99) == (" ".join(SENTENCES[3:5]), 18)
    assert passage(SENTENCES, 3, 99, 30) == (" ".join(SENTENCES[3:6]), 27), "a fourth would be too much"
    assert passage(SENTENCES, 3, 99, 5) == (SENTENCES[3], 9), "one sentence is taken whole"
    assert passage(SENTENCES, 29, 99, 99) == (SENTENCES[29], 9)


def test_lengths_are_mixed_and_texts_differ() -> None:
    drawn = [text for (text,) in Passages()(DOCUMENT, 60, np.random.default_rng(0))]
    assert len(set(drawn)) == len(drawn) == 60
    words = np.array([len(text.split()) for text in drawn])
    assert words.min() <= 9
    assert words.max() > 100
    assert words.max() <= 180
    assert np.mean(words <= 30) == pytest.approx(0.5, abs=0.15), "half are short: lengths are even on a log scale"
    whole = " ".join(["A title", *SENTENCES])
    assert all(text in whole for text in drawn)
    assert drawn == [text for (text,) in Passages()(DOCUMENT, 60, np.random.default_rng(0))]


def test_what_gives_none_and_what_is_refused() -> None:
    assert Passages()(Document("", ["Too short."]), 3, np.random.default_rng(0)) == []
    assert Passages()(Document("", []), 3, np.random.default_rng(0)) == []
    with pytest.raises(UserError, match="longest = 3 is less than shortest = 5"):
        component("pairs", "passages", longest=3)
    with pytest.raises(UserError, match="language = 'English'"):
        component("pairs", "passages", language="English")


def test_as_a_corpus_they_are_single_texts(tmp_path: Path) -> None:
    lines = (json.dumps({"title": f"Number {n}", "text": " ".join(SENTENCES[n:])}) + "\n" for n in range(6))
    documents = text_open(write(tmp_path / "d.jsonl", "".join(lines))).documents()
    corpus = open_pairs(documents, Passages(), cache=tmp_path / "pairs", rounds=3)
    assert corpus.columns == ("text",)
    assert corpus.dataset.column_names == ["text", "label"]
    assert corpus.rounds == (6, 6, 6)
    assert str(corpus.report).splitlines()[-1] == "  18 texts drawn from 6 of 6 documents"
