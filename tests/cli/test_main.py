"""Every outcome has its exit code and its line."""

import errno
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import typer.main

import isotrope
from helpers.commands import Shell, check_line
from isotrope.cli import main as cli
from isotrope.errors import Stopped, UserError


def raising(error: BaseException) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UserError("x[/y]\nz", "mend it", "a-code"), 2, "x[/y] z: mend it"),
        (
            EOFError("Ran out of input"),
            2,
            "a file is empty or cut short (Ran out of input): make or fetch it again",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "a[b]"),
            2,
            "a[b] cannot be used (Permission denied)",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            2,
            "no space left on the disk: free some, then go on",
        ),
        (
            FileNotFoundError(errno.ENOENT, "No such file", "a\udcff.txt"),
            2,
            "a\\udcff.txt cannot be used",
        ),
        (
            Stopped("stopped after step 3 of 9"),
            130,
            "stopped after step 3 of 9; the same command goes on",
        ),
        (KeyboardInterrupt(), 130, "stopped; nothing finished is lost"),
    ],
)
def test_an_error_is_one_line_with_its_code(
    error: BaseException, code: int, line: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An early end of a file is not taken for Ctrl-D; data is shown as it is."""
    monkeypatch.setattr("isotrope.compression.page.write_student_report", raising(error))
    said = shell("report", "somewhere")
    assert said.code == code
    check_line(said.err, line)


def test_what_is_ours_is_not_hidden(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "isotrope.compression.page.write_student_report", raising(ZeroDivisionError())
    )
    with pytest.raises(ZeroDivisionError):
        shell("report", "somewhere")


def test_the_version_is_told_and_a_shell_can_complete_commands(shell: Shell) -> None:
    assert shell("--version") == (0, f"isotrope {isotrope.__version__}\n", "")
    assert "--install-completion" in shell("--help").out


def test_every_argument_and_option_has_its_words() -> None:
    def bare(command: Any, name: str) -> list[str]:
        inner = [
            one
            for key, sub in getattr(command, "commands", {}).items()
            for one in bare(sub, f"{name} {key}")
        ]
        own = [
            f"{name} {option.name}"
            for option in command.params
            if not (getattr(option, "help", None) or "").strip()
        ]
        return inner + own

    assert bare(typer.main.get_command(cli.app), "isotrope") == []


@pytest.mark.parametrize(
    "words", ["compress a b --student tiny", "encode a b", "improve a b", "whiten a b"]
)
def test_only_train_runs_in_several_processes(
    words: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the others, each process would do all of the work, and write to the same place."""
    given = {
        "WORLD_SIZE": "2",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "here",
        "MASTER_PORT": "1",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cli, "end_at_once", nullcontext)
    line = (
        f"{words.split()[0]} needs one process, not 2: start it without a launcher such as torchrun"
    )
    shell(*words.split(), "--output", "out").is_mistake(line)


PROGRAM = """
import atexit, sys, threading
from isotrope.cli.main import end_at_once
threading.Thread(target=threading.Event().wait).start()  # Python would wait for it for ever
atexit.register(print, "sent")
with end_at_once():
    print("said", end=" ")
    {last}
"""


@pytest.mark.parametrize(
    ("last", "code", "error"),
    [
        ("pass", 0, ""),
        ("sys.exit(130)", 130, ""),
        ("sys.exit()", 0, ""),
        ("1 / 0", 1, "ZeroDivisionError"),
    ],
)
def test_it_ends_with_its_exit_code_and_all_is_said(last: str, code: int, error: str) -> None:
    command = [sys.executable, "-c", PROGRAM.format(last=last)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (code, "said sent\n")
    assert error in done.stderr


def test_a_rank_without_other_processes_is_not_silent(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch systems set RANK, also for a single process."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    said = shell("presets", "show", "nothing")
    assert said.code == 2
    assert said.err.startswith("isotrope: preset 'nothing' is unknown")
