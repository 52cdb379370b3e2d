"""How much of its text a model reads, and what its tokenizer does not know."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from corpora import write
from isotrope import load
from isotrope.text import coverage as coverage_module
from isotrope.text.corpus import Texts
from isotrope.text.coverage import Coverage, coverage
from isotrope.text.sample import Sample


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> SentenceTransformer:
    return load(str(tiny_model))


def look(model: SentenceTransformer, corpus: Texts, limit: int, prompt: str = "") -> Coverage:
    found = coverage(model, prompt, Sample(corpus, None, 0), limit)
    assert found is not None
    return found


def test_cut_texts_and_what_is_read_of_them(
    tmp_path: Path, corpus: Callable[..., Texts], model: SentenceTransformer
) -> None:
    """Letters are tokens of this tokenizer; [CLS] and [SEP] count, since they take room too."""
    opened = corpus(write(tmp_path / "c.txt", "a b c\nd e f g\nx" + " y" * 17 + "\n"))  # 5, 6 and 20 tokens
    found = look(model, opened, 10)
    assert sorted(found.lengths) == [5, 6, 20]
    assert found.read == pytest.approx(21 / 31)
    assert found.enough == 20
    assert str(found) == "1 of 3 texts are longer than 10 tokens; 68 % of the text is read"
    assert str(look(model, opened, 20)) == "0 of 3 texts are longer than 20 tokens; 100 % of the text is read"
    assert sorted(look(model, opened, 10, prompt="p q ").lengths) == [7, 8, 22], "a prompt takes room"


def test_columns_of_positives_are_cut_too(
    tmp_path: Path, corpus: Callable[..., Texts], model: SentenceTransformer
) -> None:
    opened = corpus(write(tmp_path / "c.csv", "a,b\na b,c d e\nf g,h i j\n"), text="a", positive="b")
    assert sorted(look(model, opened, 10).lengths) == [4, 4, 5, 5]
    assert look(model, opened, 10).whole


def test_of_many_or_long_texts_a_part_is_looked_at(
    tmp_path: Path, corpus: Callable[..., Texts], model: SentenceTransformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = corpus(write(tmp_path / "c.txt", "".join(f"a {'b ' * i}\n" for i in range(1, 60))))
    monkeypatch.setattr(coverage_module, "_ROWS", 10)
    monkeypatch.setattr(coverage_module, "LOOKED_AT", 20)
    found = look(model, opened, 32)
    assert len(found.lengths) == 20
    assert "of 20 texts looked at are longer" in str(found)
    monkeypatch.setattr(coverage_module, "_CHARACTERS", 100)
    assert len(look(model, opened, 32).lengths) == 10, "the part in which the limit was met"


def test_unknown_tokens_are_counted_and_shown(
    tmp_path: Path, corpus: Callable[..., Texts], model: SentenceTransformer
) -> None:
    opened = corpus(write(tmp_path / "c.txt", "a b c 😀\nd e f 🎉 😀\n" + "a b c d e f g\n"))
    found = look(model, opened, 10)
    assert found.unknown == pytest.approx(3 / 16)
    assert str(found).splitlines()[1].startswith("19 % of the tokens are unknown to the model's tokenizer, such as ")
    assert set(found.examples) == {"😀", "🎉"}
    rare = Coverage(found.lengths, True, 10, 0.009, ())
    assert len(str(rare).splitlines()) == 1, "not worth a line"
