"""One process a folder, and a folder in which nothing was begun is left as it was."""

import multiprocessing
from pathlib import Path

import pytest

from isotrope.errors import UserError
from isotrope.store.lock import hold
from isotrope.store.mark import kind_of


def test_a_folder_in_which_nothing_was_written_is_left_as_it_was(tmp_path):
    with pytest.raises(ZeroDivisionError), hold(tmp_path / "new", "run"):
        raise ZeroDivisionError
    assert not (tmp_path / "new").exists()
    (tmp_path / "empty").mkdir()
    with hold(tmp_path / "empty", "run"):
        pass
    assert not list((tmp_path / "empty").iterdir())


def test_a_foreign_folder_is_refused_and_stays_as_it_is(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="holds no run"), hold(tmp_path, "run"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_second_process_is_refused_and_takes_nothing_from_the_first(tmp_path):
    folder = tmp_path / "run"
    with hold(folder, "run"):
        process = multiprocessing.get_context("fork").Process(target=_refused, args=(folder,))
        process.start()
        process.join()
        assert process.exitcode == 0
        assert kind_of(folder) == "run"
        (folder / "result.json").write_text("{}")
    assert kind_of(folder) == "run"


def _refused(folder: Path) -> None:
    with pytest.raises(UserError, match="in use by another process"), hold(folder, "run"):
        pass
