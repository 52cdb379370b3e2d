"""A small study, run once for all tests that read what it left."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isotrope.study import Study, study
from isotrope.study.plan import StudyPlan
from isotrope.study.spec import read_study
from studies import planned, quiet, write_study


@pytest.fixture(scope="session")
def small(tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study(tmp_path_factory.mktemp("study"), tiny_model, corpus_file, pairs_file)


@pytest.fixture(scope="session")
def finished(small: Path) -> Study:
    return study(small, output=small.parent / "out", workers=2, console=quiet())


@pytest.fixture
def write(tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path) -> Callable[..., Path]:
    """Writes a study's file with these rows."""
    return lambda rows, seeds=1: write_study(tmp_path, tiny_model, corpus_file, pairs_file, rows, seeds)


@pytest.fixture
def plan(write: Callable[..., Path], tmp_path: Path) -> Callable[..., StudyPlan]:
    """Plans a study with these rows, of one seed; ``run`` replaces keys of its [run]."""

    def made(rows: str, only: tuple[str, ...] = (), forced: tuple[str, ...] = (), **run: Any) -> StudyPlan:
        return planned(read_study(write(rows), run), tmp_path / "out", only=only, forced=forced)

    return made
