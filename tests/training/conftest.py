"""One finished run that the tests of this room look at, and never change."""

from pathlib import Path

import pytest

from helpers.small_runs import Small, small_run
from helpers.words import sentences
from isotrope.training.train import Run


@pytest.fixture(scope="session")
def corpus_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """320 sentences, one a line: fewer are watched than of the corpus of the other rooms."""
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n".join(sentences(320)) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def finished(
    tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """With dev pairs: half of them select, half of them judge."""
    return small_run(
        tiny_model, corpus_file, tmp_path_factory.mktemp("run") / "one", dev=str(pairs_file)
    )


@pytest.fixture
def small(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> Small:
    """A `small_run` in a folder of this name."""
    return lambda folder, *overrides, **options: small_run(
        tiny_model, corpus_file, tmp_path / folder, *overrides, **options
    )
