"""compress with a smaller vocabulary: alone, without training, and as the beginning of a student."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from sentence_transformers import SentenceTransformer

import isotrope
from isotrope.compression.compress import Compression, compress
from isotrope.compression.vocabulary import Cut
from isotrope.encoder import save
from small_vocabularies import TEXTS, roberta

DOCUMENTS = [f"{first}. {second}." for first in TEXTS for second in TEXTS if first != second]
GERMAN = [text for text in DOCUMENTS if "König" in text]


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("teacher")
    model = isotrope.load(roberta("Unigram", place), "mean", normalize=True, device="cpu")
    save(model, place / "model")
    return place / "model"


def test_alone_nothing_is_trained_and_what_is_lost_is_told_first(teacher: Path, tmp_path: Path) -> None:
    whole, console = SentenceTransformer(str(teacher), device="cpu"), Console(record=True, width=200)
    count = len(whole.tokenizer) - 20
    found = compress(teacher, GERMAN, student=f"vocabulary:{count}", output=tmp_path / "run", console=console)
    assert isinstance(found, Cut)
    assert "tokens in your documents" in console.export_text()
    assert 0.9 < found.kept <= 1
    assert list(found.record["tokens"]) == [count + 20, count]
    assert found.record["bytes"][0] - found.record["bytes"][1] == 20 * 16 * 4
    assert found.verdict.word == "not tested"
    assert "keeps its vector to the last bit. Its weights have " in found.verdict.advice
    assert list(found.table.columns) == ["before", "after"]
    small = SentenceTransformer(str(tmp_path / "run" / "model"), device="cpu")
    known = small.tokenizer.get_vocab().keys()
    same = [text for text in GERMAN if {*whole.tokenizer.tokenize(text)} <= known]
    assert same
    np.testing.assert_array_equal(small.encode(same), whole.encode(same))
    assert f"{count:,} tokens" in (tmp_path / "run" / "model" / "README.md").read_text(encoding="utf-8")
    assert "Tokens and size" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    again = compress(
        teacher, GERMAN, student=f"vocabulary:{count}", output=tmp_path / "run", console=Console(quiet=True)
    )
    assert again.record == found.record, "it is only read"


def test_layers_of_fewer_tokens_follow_the_whole_teacher(teacher: Path, tmp_path: Path) -> None:
    """Also with queries only, where both tokenizers are in one model."""
    whole = SentenceTransformer(str(teacher), device="cpu")
    count = len(whole.tokenizer) - 20
    found = compress(
        teacher, DOCUMENTS, student=f"layers:1,vocabulary:{count}", side="query", output=tmp_path / "run",
        overrides=["train.batch_size=16", "train.epochs=1", "train.max_length=32"], console=Console(quiet=True),
    )  # fmt: skip
    assert isinstance(found, Compression)
    assert found.record["compression"]["student"] == f"layers:1,vocabulary:{count}"
    assert found.record["compression"]["teacher"] == "model"
    routes = SentenceTransformer(str(tmp_path / "run" / "model"), device="cpu")[0].sub_modules
    assert [len(routes[name][0].tokenizer) for name in ("query", "document")] == [count, count + 20]
    np.testing.assert_array_equal(found.model.encode_document(TEXTS), isotrope.load(teacher).encode(TEXTS))
