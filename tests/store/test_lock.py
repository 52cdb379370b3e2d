"""One process a folder, and a folder in which nothing was begun is left as it was."""

import multiprocessing
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from isotrope.errors import UserError
from isotrope.store.atomic import new_file
from isotrope.store.job import Job
from isotrope.store.lock import in_turn
from isotrope.store.mark import DRAFT, kind_of


def hold(folder, kind):
    return Job(folder, kind, {}).held()


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


def test_a_folder_that_vanishes_while_it_is_held(tmp_path: Path) -> None:
    with hold(tmp_path / "run", "run"):
        shutil.rmtree(tmp_path / "run")
    with hold(tmp_path / "run", "run"):
        (tmp_path / "run" / "a.txt").touch()
    assert kind_of(tmp_path / "run") == "run"


def test_a_killed_process_holds_nothing_and_its_drafts_go(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = multiprocessing.get_context("fork").Process(target=_killed, args=(folder,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert len(list(folder.glob(f".a.txt.*{DRAFT}"))) == 1
    with hold(folder, "run"):
        assert not list(folder.glob(f".*{DRAFT}"))


def _killed(folder: Path) -> None:
    with hold(folder, "run"), new_file(folder / "a.txt"):
        os.kill(os.getpid(), signal.SIGKILL)


def test_others_wait_for_their_turn(tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=_waits, args=(tmp_path / "a",))
    with in_turn(tmp_path / "a"):
        process.start()
        time.sleep(0.3)
        assert not (tmp_path / "a").exists()
    process.join()
    assert (tmp_path / "a").exists()


def _waits(path: Path) -> None:
    with in_turn(path):
        path.touch()
