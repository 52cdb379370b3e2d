"""A corpus, a second model, and a cache of each test's own."""

from pathlib import Path

import pytest

from conftest import build_bert
from isotrope.teachers import _model
from isotrope.text.corpus import Texts
from isotrope.text.opened import open as text_open


@pytest.fixture(scope="module")
def corpus(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Texts:
    return text_open(corpus_file).texts()


@pytest.fixture(scope="module")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Other weights, another dimension, its own tokenizer."""
    return build_bert(tmp_path_factory.mktemp("other-bert"), hidden=16, layers=1)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test has a cache of its own, in shards of 100 rows."""
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(_model, "TEACHER_SHARD", 100)
    return tmp_path / "cache" / "teachers"
