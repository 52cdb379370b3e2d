"""A model of one pooling, a small library, and races that take seconds."""

from pathlib import Path

import numpy as np
import pytest

from helpers.library import write_library
from isotrope.encoder import load, save
from isotrope.evaluation.sets.similarity import similarity_pairs
from isotrope.improvement import candidates


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
    """General English is looked at by 40 graded pairs."""
    some = similarity_pairs().rows(np.arange(40))
    monkeypatch.setattr("isotrope.improvement.general.similarity_pairs", lambda: some)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, few_pairs: None) -> None:
    """Two trainings of a few steps."""
    recipes_for = candidates.recipes_for
    monkeypatch.setattr(
        "isotrope.improvement.prepare.recipes_for", lambda *given: recipes_for(*given)[:2]
    )
    monkeypatch.setattr("isotrope.improvement.plan.FEWEST_PAIRS", 64)
    monkeypatch.setattr("isotrope.improvement.prepare.MOST_ROUNDS", 2)


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch, few_pairs: None) -> None:
    """No training at all."""
    monkeypatch.setattr("isotrope.improvement.prepare.recipes_for", lambda *_: [])
