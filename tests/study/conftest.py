"""A small study, run once for all tests that read what it left."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotrope.study import Study, study
from studies import quiet, write_study


@pytest.fixture(scope="session")
def small(tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study(tmp_path_factory.mktemp("study"), tiny_model, corpus_file, pairs_file)


@pytest.fixture(scope="session")
def finished(small: Path) -> Study:
    return study(small, output=small.parent / "out", workers=2, console=quiet())
