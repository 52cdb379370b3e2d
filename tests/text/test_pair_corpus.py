"""Pairs of documents as a corpus: round after round, kept in the cache, one clear line where there are none."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from corpora import write
from isotrope.errors import UserError
from isotrope.text.corpus import Document, Documents
from isotrope.text.opened import open as text_open
from isotrope.text.pair_corpus import PairMaker, TextPair, open_pairs
from isotrope.text.pairs.passages import Passages
from isotrope.text.pairs.spans import Spans
from isotrope.text.sample import Sample


@dataclass(frozen=True)
class Numbered:
    """Document "3 …" has three pairs at most, in an order that is drawn."""

    word: str = "pair"
    needs: str = "a number"

    def __call__(self, document: Document, count: int, generator: np.random.Generator) -> list[TextPair]:
        order = generator.permutation(int(document.text.split()[0]))[:count]
        return [(f"{document.text} {self.word}", f"{document.text} other {number}") for number in order]


def documents(folder: Path, *counts: int) -> Documents:
    lines = (json.dumps({"text": f"{count} of document {number}"}) + "\n" for number, count in enumerate(counts))
    return text_open(write(folder / "d.jsonl", "".join(lines))).documents()


def test_rounds_follow_one_another(tmp_path: Path) -> None:
    corpus = open_pairs(documents(tmp_path, 3, 0, 2, 1), Numbered(), cache=tmp_path / "pairs", rounds=4)
    assert corpus.columns == ("text", "positive")
    assert corpus.rounds == (3, 2, 1)
    assert [text.split()[3] for text in corpus.dataset["text"]] == ["0", "2", "3", "0", "2", "0"]
    assert corpus.dataset["label"][:] == list(range(6))
    assert corpus.dataset.column_names == ["text", "positive", "label"]
    assert len(set(corpus.dataset["positive"])) == 6
    assert corpus.texts(np.array([4, 1])) == [corpus.dataset[4]["text"], corpus.dataset[1]["text"]]
    assert str(corpus.report).splitlines()[-1] == "  6 pairs drawn from 3 of 4 documents (1 do not have a number)"
    assert len(Sample(corpus, 4, 0)) == 4


def test_held_out_documents_give_no_pair(tmp_path: Path) -> None:
    found = documents(tmp_path, *([2] * 30))
    corpus = open_pairs(found, Numbered(), cache=tmp_path / "pairs", rounds=2, seed=7, held_out=10)
    used = {int(text.split()[3]) for text in corpus.dataset["text"]}
    assert used == set(found.split(10, 7)[0].tolist())
    assert str(corpus.report).endswith("40 pairs drawn from 20 of 20 documents; 10 documents are held out")


def test_pairs_are_found_again_and_change_with_all_that_decides_them(tmp_path: Path) -> None:
    found, cache = documents(tmp_path, 3, 3, 3, 3, 3), tmp_path / "pairs"
    first = open_pairs(found, Numbered(), cache=cache)
    made = sorted(cache.glob("*/*.arrow"))
    assert open_pairs(found, Numbered(), cache=cache).dataset["positive"][:] == first.dataset["positive"][:]
    assert sorted(cache.glob("*/*.arrow")) == made
    others = [
        open_pairs(found, Numbered("x"), cache=cache),
        open_pairs(found, Numbered(), cache=cache, seed=1),
        open_pairs(found, Numbered(), cache=cache, rounds=2),
        open_pairs(found, Numbered(), cache=cache, held_out=1),
    ]
    assert len({first.key, *(each.key for each in others)}) == 5
    assert others[1].dataset["positive"][:] != first.dataset["positive"][:]


@pytest.mark.parametrize(("counts", "said"), [((0, 0, 0), "0 of 3 documents have"), ((0, 2), "1 of 2 documents has")])
def test_too_few_pairs_are_one_clear_line(tmp_path: Path, counts: tuple[int, ...], said: str) -> None:
    with pytest.raises(UserError, match=f"^{said} a number"):
        open_pairs(documents(tmp_path, *counts), Numbered(), cache=tmp_path / "pairs")
    with pytest.raises(UserError, match="documents cannot be held out"):
        open_pairs(documents(tmp_path, *counts), Numbered(), cache=tmp_path / "pairs", held_out=5)


@pytest.mark.parametrize(
    ("maker", "columns", "said"),
    [
        (Passages(), ("text",), "  6 texts drawn from 2 of 2 documents"),
        (Spans(8, 40), ("text", "positive", "positive_1"), "  6 pairs drawn from 2 of 2 documents"),
    ],
)
def test_single_texts_and_further_positives_have_their_columns(
    tmp_path: Path, maker: PairMaker, columns: tuple[str, ...], said: str
) -> None:
    sentences = [f"This is the sentence number {number} of the text." for number in range(30)]
    lines = (json.dumps({"text": " ".join(sentences[begin:])}) + "\n" for begin in (0, 10))
    found = text_open(write(tmp_path / "d.jsonl", "".join(lines))).documents()
    corpus = open_pairs(found, maker, cache=tmp_path / "pairs", rounds=3)
    assert corpus.columns == columns
    assert corpus.dataset.column_names == [*columns, "label"]
    assert corpus.rounds == (2, 2, 2)
    assert str(corpus.report).splitlines()[-1] == said
