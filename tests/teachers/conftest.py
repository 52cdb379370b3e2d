"""A corpus, a second model, and a cache of each test's own."""

import os
import signal
from pathlib import Path

import pytest

from helpers.small_bert import build_bert
from isotrope.teachers import _model
from isotrope.text import read_text
from isotrope.text.corpus import Texts


@pytest.fixture(scope="module")
def corpus(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Texts:
    return read_text(corpus_file).texts()


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


class Shards(list[int]):
    """Where each shard began that was written; ``kill_at``: where the process dies before it
    writes.
    """

    kill_at = -1


@pytest.fixture
def shards(monkeypatch: pytest.MonkeyPatch) -> Shards:
    begun, write = Shards(), _model.write_behind

    def noted(path: Path, place: int, data: bytes) -> None:
        row = place // (4 * 32)  # the small model has 32 dimensions
        if row == begun.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        begun.append(row)
        write(path, place, data)

    monkeypatch.setattr(_model, "write_behind", noted)
    return begun
