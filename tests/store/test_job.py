"""A job's folder: taken, gone on with, refused, begun anew, finished."""

import os
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from forks import code, fork
from isotrope.errors import UserError
from isotrope.store.atomic import in_turn, new_file
from isotrope.store.job import IDENTITY, RESULT, Job
from isotrope.store.mark import DRAFT, kind_of


class Text:
    """An opened text whose files may have changed."""

    def __init__(self, *folders: Path, changed: bool = False) -> None:
        self.folders: Sequence[Path] = folders
        self.changed = changed

    def check(self) -> None:
        if self.changed:
            raise UserError("the text changed", "give the same command again")


def job(folder: Path | None, *sources: Text, seed: int = 0, restart: bool = False) -> Job:
    return Job(folder, "run", {"seed": seed, "text": {"documents": 32 * "a"}}, sources, restart=restart)


def done(work: Job) -> Job:
    with work.held():
        work.begin()
        (work.folder / "model").mkdir()
        (work.folder / "model" / "weights").write_text("weights")
        work.finish({"score": 0.5})
    return work


def test_a_finished_job_gives_its_result_again(tmp_path: Path) -> None:
    done(job(tmp_path / "run"))
    again = job(tmp_path / "run")
    (again.folder / "model" / "README.md").write_text("my own words")  # a card may be written in
    with again.held():
        assert again.result() == {"score": 0.5}


@pytest.mark.parametrize("path", ["model/weights", RESULT])
@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_text("x")])
def test_what_is_missing_or_damaged_is_not_announced(tmp_path: Path, path: str, damage: object) -> None:
    work = done(job(tmp_path / "run"))
    damage(work.folder / path)  # type: ignore[operator]
    with work.held():
        assert work.result() is None


def test_another_identity_is_refused_and_named(tmp_path: Path) -> None:
    done(job(tmp_path / "run"))
    for text, seed, problem in ("a", 1, "begun with seed = 0, not 1: .*--restart"), ("b", 0, "text: other documents"):
        other = Job(tmp_path / "run", "run", {"seed": seed, "text": {"documents": 32 * text}})
        with pytest.raises(UserError, match=problem), other.held():
            pass
    (tmp_path / "run" / IDENTITY).write_text("{")
    with pytest.raises(UserError, match=r"is damaged: .*--restart"), job(tmp_path / "run").held():
        pass


def test_restart_begins_anew(tmp_path: Path) -> None:
    done(job(tmp_path / "run"))
    anew = job(tmp_path / "run", seed=1, restart=True)
    with anew.held():
        assert not anew.begun
        assert anew.result() is None
        assert not (anew.folder / "model").exists()


def test_what_belongs_to_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    for restart in (False, True):
        with pytest.raises(UserError, match="not empty"), job(tmp_path, restart=restart).held():
            pass
    assert (tmp_path / "letter.txt").read_text() == "mine"


def test_the_output_may_not_lie_in_what_is_read(tmp_path: Path) -> None:
    work = job(tmp_path / "text" / "run", Text(tmp_path / "text"))
    with pytest.raises(UserError, match="which is read"), work.held():
        pass


def test_no_result_is_written_if_a_source_changed(tmp_path: Path) -> None:
    work = job(tmp_path / "run", Text(changed=True))
    with pytest.raises(UserError, match="the text changed"):
        done(work)
    assert not (work.folder / RESULT).exists()


def test_without_a_folder_the_work_lives_as_long_as_the_job() -> None:
    work = done(job(None))
    folder = work.folder
    assert (folder / RESULT).is_file()
    del work
    assert not folder.exists()


def test_a_folder_in_which_nothing_was_written_is_left_as_it_was(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), job(tmp_path / "new").held():
        raise ZeroDivisionError
    assert not (tmp_path / "new").exists()
    (tmp_path / "empty").mkdir()
    with job(tmp_path / "empty").held():
        pass
    assert not list((tmp_path / "empty").iterdir())


def test_a_second_process_is_refused_and_takes_nothing_from_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def second() -> None:
        with pytest.raises(UserError, match="in use by another process"), job(folder).held():
            pass

    with job(folder).held():
        assert code(fork(second)) == 0
        (folder / "result.json").write_text("{}")
    assert kind_of(folder) == "run"


def test_a_folder_that_vanishes_while_it_is_held(tmp_path: Path) -> None:
    with job(tmp_path / "run").held():
        shutil.rmtree(tmp_path / "run")
    with job(tmp_path / "run").held():
        (tmp_path / "run" / "a.txt").touch()
    assert kind_of(tmp_path / "run") == "run"


def test_a_killed_process_holds_nothing_and_its_drafts_go(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def killed() -> None:
        with job(folder).held(), new_file(folder / "a.txt"):
            os.kill(os.getpid(), signal.SIGKILL)

    assert code(fork(killed)) == -signal.SIGKILL
    assert len(list(folder.glob(f".a.txt.*{DRAFT}"))) == 1
    with job(folder).held():
        assert not list(folder.glob(f".*{DRAFT}"))


def test_others_wait_for_their_turn(tmp_path: Path) -> None:
    def waits() -> None:
        with in_turn(tmp_path / "a"):
            (tmp_path / "a").touch()

    with in_turn(tmp_path / "a"):
        child = fork(waits)
        time.sleep(0.3)
        assert not (tmp_path / "a").exists()
    assert code(child) == 0
    assert (tmp_path / "a").exists()
