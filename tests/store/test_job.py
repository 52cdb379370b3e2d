"""A job's folder: taken, gone on with, refused, begun anew, finished; its records, whole or one
clear line.
"""

import json
import os
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from helpers.forks import code, fork
from helpers.refusals import refused
from isotrope.errors import UserError
from isotrope.store.files import DRAFT, LOCK, MARK, RecordLog, mark_of, new_file, read_record
from isotrope.store.job import IDENTITY, RESULT, Job, in_turn


class Text:
    """An opened text whose files may have changed."""

    def __init__(self, *folders: Path, changed: bool = False) -> None:
        self.folders: Sequence[Path] = folders
        self.changed = changed

    def check(self) -> None:
        if self.changed:
            raise UserError("the text changed", "give the same command again", "text-changed")


def job(folder: Path | None, *sources: Text, seed: int = 0, restart: bool = False) -> Job:
    return Job(
        folder, "run", {"seed": seed, "text": {"documents": 32 * "a"}}, sources, restart=restart
    )


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
def test_what_is_missing_or_damaged_is_not_announced(
    tmp_path: Path, path: str, damage: object
) -> None:
    work = done(job(tmp_path / "run"))
    damage(work.folder / path)  # type: ignore[operator]
    with work.held():
        assert work.result() is None


def test_another_identity_is_refused_and_named(tmp_path: Path) -> None:
    done(job(tmp_path / "run"))
    for text, seed, problem in (
        ("a", 1, "begun with seed = 0, not 1: .*--restart"),
        ("b", 0, "text: other documents"),
    ):
        other = Job(tmp_path / "run", "run", {"seed": seed, "text": {"documents": 32 * text}})
        with pytest.raises(UserError, match=problem), other.held():
            pass
    (tmp_path / "run" / IDENTITY).write_text("{")
    with refused("damaged-record"), job(tmp_path / "run").held():
        pass


def test_restart_begins_anew(tmp_path: Path) -> None:
    done(job(tmp_path / "run"))
    anew = job(tmp_path / "run", seed=1, restart=True)
    with anew.held():
        assert not anew.begun
        assert anew.result() is None
        assert not (anew.folder / "model").exists()


@pytest.mark.parametrize("name", [IDENTITY, MARK, LOCK])
def test_files_that_a_loss_of_power_emptied_count_as_missing(tmp_path: Path, name: str) -> None:
    with job(tmp_path / "run").held():
        (tmp_path / "run" / IDENTITY).touch()  # so that the folder stays
    (tmp_path / "run" / name).write_bytes(b"")
    assert done(job(tmp_path / "run")).result() is not None


def test_a_result_with_other_bytes_is_made_again(tmp_path: Path) -> None:
    work = done(job(tmp_path / "run"))
    file = work.folder / RESULT
    record = json.loads(file.read_text())
    key = next(iter(record.keys() - {"files", "record_checksum"}))
    file.write_text(json.dumps({**record, key: "another"}))
    assert work.result() is None
    assert work.lost


def test_what_belongs_to_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    for restart in (False, True):
        with refused("folder-is-not-ours"), job(tmp_path, restart=restart).held():
            pass
    assert (tmp_path / "letter.txt").read_text() == "mine"


def test_the_output_may_not_lie_in_what_is_read(tmp_path: Path) -> None:
    work = job(tmp_path / "text" / "run", Text(tmp_path / "text"))
    with refused("output-in-input"), work.held():
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
    assert mark_of(folder) == "run"


def test_a_folder_may_be_removed_while_it_is_held(tmp_path: Path) -> None:
    with job(tmp_path / "run").held():
        shutil.rmtree(tmp_path / "run")
    with job(tmp_path / "run").held():
        (tmp_path / "run" / "a.txt").touch()
    assert mark_of(tmp_path / "run") == "run"


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


def test_a_record(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"scores": {"STS12": 0.5}, "step": 3}')
    assert read_record(tmp_path / "a.json", ["step"])["scores"] == {"STS12": 0.5}
    assert read_record(tmp_path / "a.json", {"step": int, "scores": dict})["step"] == 3


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "is missing"),
        (b"", "is damaged"),
        (b'{"step": ', "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b"[1]", "is damaged"),
        (b"{}", "is damaged .'step'."),
        (b'{"step": "three"}', "is damaged"),
    ],
)
def test_any_damage_is_one_line(tmp_path: Path, content: bytes | None, why: str) -> None:
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=f"a.json {why}.*: make it again") as error:
        read_record(path, {"step": int}, "make it again")
    assert "\n" not in str(error.value)


def test_a_log_grows_and_is_cut(tmp_path: Path) -> None:
    log = RecordLog(tmp_path / "log.jsonl")
    for step in range(4):
        log.add({"step": step, "text": "a\u2028b\n"})
    assert RecordLog(tmp_path / "log.jsonl").records == log.records
    log.keep(log.records[:2])
    log.add({"step": 9})
    assert [record["step"] for record in RecordLog(tmp_path / "log.jsonl").records] == [0, 1, 9]


@pytest.mark.parametrize(
    "tail", ['{"step": 1', '{"step": 1}', '"no record"\n{"step": 5}\n', "\udcff\n"]
)
def test_what_a_kill_cut_short_does_not_spoil_the_next_record(tmp_path: Path, tail: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 0}\n' + tail, errors="surrogateescape")
    log = RecordLog(path)
    log.add({"step": 2})
    steps = [json.loads(line)["step"] for line in path.read_text().splitlines()]
    assert steps == [record["step"] for record in log.records]
    assert steps in ([0, 2], [0, 1, 2])


def test_who_does_not_write_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 0}\n{"st')
    log = RecordLog(path, writing=False)
    log.add({"step": 1})
    log.keep(log.records[:1])
    assert path.read_text() == '{"step": 0}\n{"st'
