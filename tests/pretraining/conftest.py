"""A small text with repeated words, and what is learnt from it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.toy import run_toy
from isotrope.pretraining.text import train_tokenizer

WORDS = [
    "the",
    "cat",
    "sees",
    "a",
    "dog",
    "and",
    "hears",
    "red",
    "birds",
    "in",
    "old",
    "Ünder",
    "trees",
    "of",
    "house",
]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 sentences."""
    generator = np.random.default_rng(0)
    starts, lengths = generator.integers(0, 15, 600), generator.integers(3, 12, 600)
    lines = [
        " ".join(WORDS[i % 15] for i in range(a, a + n)) + " ."
        for a, n in zip(starts, lengths, strict=True)
    ]
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    path.write_text("\n".join(lines), "utf-8")
    return path


@pytest.fixture(scope="session")
def tokenizer(corpus: Path) -> Any:
    """Learnt from the corpus."""
    return train_tokenizer(corpus.read_text("utf-8").splitlines(), 120, 32)


@pytest.fixture(scope="session")
def finished(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nobody disturbed."""
    output = tmp_path_factory.mktemp("finished")
    run_toy(corpus, output)
    return output
