"""A small study, run once for all tests that read what it left; and plans of studies whose rows a
test gives.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.studies import measured, planned, quiet, write_study
from isotrope.study import Study, study
from isotrope.study.analyse import study_record
from isotrope.study.plan import StudyPlan
from isotrope.study.record import StudyRecord
from isotrope.study.spec import read_study


@pytest.fixture(autouse=True, scope="session")
def _forks() -> Iterator[None]:
    """Cells are forks of the tests' process, which has imported everything. The server that users
    have takes seconds to start: it is tested by a journey and by the slow kills.
    """
    with pytest.MonkeyPatch.context() as patch:
        fork = multiprocessing.get_context("fork")
        patch.setattr("isotrope.study.execute._process_context", lambda: fork)
        yield


@pytest.fixture(scope="session")
def small(
    tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    return write_study(
        tmp_path_factory.mktemp("study"), tiny_model, corpus_file, pairs_file, seeds=2
    )


@pytest.fixture(scope="session")
def finished(small: Path) -> Study:
    return study(small, output=small.parent / "out", workers=2, console=quiet())


@pytest.fixture
def write(
    tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> Callable[[str], Path]:
    """Writes a study's file with these rows, of one seed."""
    return lambda rows: write_study(tmp_path, tiny_model, corpus_file, pairs_file, rows)


@pytest.fixture
def plan(write: Callable[[str], Path], tmp_path: Path) -> Callable[..., StudyPlan]:
    """Plans a study with these rows, of one seed; ``run`` replaces keys of its [run]."""

    def made(
        rows: str, only: tuple[str, ...] = (), forced: tuple[str, ...] = (), **run: Any
    ) -> StudyPlan:
        return planned(read_study(write(rows), run), tmp_path / "out", only=only, forced=forced)

    return made


@pytest.fixture
def sketch(corpus_file: Path, tmp_path: Path) -> Callable[..., StudyPlan]:
    """Plans a study with these rows, which no pairs judge; ``run`` replaces keys of its [run]."""

    def made(
        rows: str, only: tuple[str, ...] = (), forced: tuple[str, ...] = (), **run: Any
    ) -> StudyPlan:
        given = {
            "corpus": [str(corpus_file)],
            "test": "none",
            "dev": ["none"],
            "sentences": 500,
            **run,
        }
        (tmp_path / "spec.toml").write_text(f'title = "t"\n{rows}')
        return planned(
            read_study(tmp_path / "spec.toml", given), tmp_path, only=only, forced=forced
        )

    return made


@pytest.fixture
def scored(sketch: Callable[..., StudyPlan]) -> Callable[..., StudyRecord]:
    """The record of a study with these rows, if every cell has the scores that a function gives it."""
    return lambda rows, scores, draws=False: study_record(measured(sketch(rows), scores, draws))
