"""One object decides which rows a run visits, and in which order."""

from pathlib import Path

import pytest

from isotrope.errors import UserError
from isotrope.text.batches import PermutedBatches
from isotrope.text.opened import open as text_open
from isotrope.text.sample import RowOrder, Sample


def test_the_sample_holds_the_rows_that_training_visits(corpus_file: Path, tmp_path: Path) -> None:
    corpus = text_open(corpus_file).texts()
    sample = Sample(corpus, 100, 7)
    visited = [row for batch in PermutedBatches(len(corpus), 10, 7, limit=100) for row in batch]
    assert sample.rows is not None
    assert sample.rows.tolist() == sorted(visited)
    assert sample.texts(3) == [corpus.dataset[row]["text"] for row in visited[:3]]
    assert len(sample) == len(sample.texts()) == len(sample.texts(1000)) == 100


def test_all_rows_have_no_list(corpus_file: Path, tmp_path: Path) -> None:
    corpus = text_open(corpus_file).texts()
    assert Sample(corpus, None, 0).rows is None
    assert Sample(corpus, len(corpus), 0).rows is None
    assert sorted(Sample(corpus, None, 0).texts()) == sorted(corpus.dataset["text"])


def test_a_sample_of_rounds_takes_whole_rounds_first() -> None:
    rounds = (50, 40, 30)
    few = RowOrder(120, 60, 3, rounds)
    assert few.rounds == (50, 10)
    rows = few.rows(0, 60)
    assert sorted(rows[:50]) == list(range(50))
    assert set(rows[50:]) <= set(range(50, 90))
    assert sorted(few.rows(0, 60, epoch=1)) == sorted(rows), "each epoch permutes the same sample"
    parts = [few.rows(begin, begin + 7).tolist() for begin in range(0, 56, 7)]
    assert [row for part in parts for row in part] == rows[:56].tolist()
    everything = RowOrder(120, None, 3, rounds)
    assert everything.rounds == rounds
    places = [row - begin for begin in (0, 50) for row in everything.rows(begin, begin + 40)]
    assert places[:40] != places[40:], "each round has an order of its own"


@pytest.mark.parametrize("count", [0, 601])
def test_more_rows_than_there_are(count: int, corpus_file: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"a sample of {count} sentences from a corpus of 600"):
        Sample(text_open(corpus_file).texts(), count, 0).texts()
