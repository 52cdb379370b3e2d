"""A model of one pooling, a small library, and races that take seconds."""

from pathlib import Path

import pytest

from helpers.library import write_library
from helpers.races import judge_general_english_by_few_pairs, train_two_candidates
from isotrope.encoder import load, save


@pytest.fixture(scope="session")
def whole(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small BERT with the mean of all tokens, as sentence-transformers saves it: no other
    pooling is tried.
    """
    folder = tmp_path_factory.mktemp("whole") / "whole"
    save(load(tiny_model, "mean"), folder)
    return folder


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_library(tmp_path_factory.mktemp("library") / "library.jsonl")


@pytest.fixture
def few_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    judge_general_english_by_few_pairs(monkeypatch)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, few_pairs: None) -> None:
    train_two_candidates(monkeypatch)


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch, few_pairs: None) -> None:
    """No training at all."""
    monkeypatch.setattr("isotrope.improvement.prepare.recipes_for", lambda *_: [])
