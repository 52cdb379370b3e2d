"""The command line: thin over the package's functions.

Exit codes: 0 done, 2 the user's mistake (one line, with the remedy), 130 stopped by Ctrl-C, 1 ours.
"""

import atexit
import logging
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from isotrope.cli.compress import compress
from isotrope.cli.data import data
from isotrope.cli.encode import encode, search
from isotrope.cli.evaluate import case, evaluate
from isotrope.cli.export import export
from isotrope.cli.improve import improve
from isotrope.cli.old_options import OLD_COMMANDS, OLD_OPTIONS
from isotrope.cli.presets import presets
from isotrope.cli.quickstart import quickstart
from isotrope.cli.study import study
from isotrope.cli.train import report, train
from isotrope.cli.whiten import whiten
from isotrope.console.plain import plain_console
from isotrope.console.processes import process_count, process_number
from isotrope.errors import Stopped, UserError
from isotrope.store.files import FULL

COMMANDS = (
    quickstart, improve, compress, train, report, encode, search, evaluate, case, whiten, export,
    study,
)  # fmt: skip
errors = plain_console(stderr=True)
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
app.add_typer(presets, name="presets")
app.add_typer(data, name="data")


for command in COMMANDS:
    app.command()(command)


def _show_version(is_given: bool) -> None:
    if is_given:
        from importlib.metadata import version

        typer.echo(f"isotrope {version('isotrope')}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show it, and end."),
    ] = False,
) -> None:
    """isotrope: text without labels in, a better sentence-embedding model out, and a verdict on
    it.
    """


def main() -> None:
    """Run the command line; every outcome has its exit code."""
    _open_closed_streams()
    if process_count() == 1:
        run()
        return
    # torchrun sends SIGTERM to the other processes when one has ended.
    signal.signal(signal.SIGTERM, _stop)
    with end_at_once():
        run()


def run() -> None:
    """Run the command that the words name, and end with its exit code and at most one line."""
    _quieten_libraries()
    try:
        _check_current_folder()
        _refuse_old_command()
        exit_code = app(prog_name="isotrope", standalone_mode=False)
        if exit_code == 130:  # typer's for Ctrl-C
            raise KeyboardInterrupt
        sys.stdout.flush()
    except UserError as error:
        _end(str(error), 2)
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except typer.TyperException as error:
        _end(_usage_line(error), 2)
    except (BrokenPipeError, SystemExit) as end:
        _end_without_reader(end)
    except OSError as error:
        _end(_disk_line(error), 2)
    except Stopped as stopped:
        _end(_stopped_line(stopped), stopped.code)
    except (KeyboardInterrupt, typer.Abort):
        _end("stopped; nothing finished is lost: give the same command again", 130)


@contextmanager
def end_at_once() -> Iterator[None]:
    """Exit right after the block, with its exit code, before interpreter shutdown.

    There the main thread may wait for a thread of gloo, which waits for a lock that the main
    thread holds.
    """
    code: object = 0
    try:
        yield
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    if "torch.distributed" in sys.modules:
        from isotrope.training.processes import leave

        leave(failed=bool(code))
    atexit._run_exitfuncs()  # trackers send what they still hold
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


def _open_closed_streams() -> None:
    """Open the streams that the shell has closed (``>&-``), or the next file would get the
    number of one of them.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115, it stays open


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    message = "another process of this run has ended, or its launcher was stopped"
    raise Stopped(message, code=128 + number)


def _quieten_libraries() -> None:
    """Keep other libraries' messages away from what the user has to read, and let waiting threads
    sleep.

    The environment is read when torch is imported. What the user has set stays.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")


def _check_current_folder() -> None:
    try:
        Path.cwd()
    except FileNotFoundError as error:
        problem = "the folder that you are in was deleted"
        raise UserError(problem, "change to another one", code="no-current-folder") from error


def _refuse_old_command() -> None:
    for command in sys.argv[1:2]:
        if command in OLD_COMMANDS:
            raise UserError(
                f"isotrope {command} is gone", OLD_COMMANDS[command], code="old-command"
            )


def _usage_line(error: typer.TyperException) -> str:
    """The line for words that typer does not understand; an old option names the new one."""
    option = getattr(error, "option_name", "")
    if option in OLD_OPTIONS:
        return f"{option} is no option any more: {OLD_OPTIONS[option]}"
    problem = error.format_message()
    if problem.startswith("Usage: "):  # a command without a word more gets its help
        errors.print(problem)
        sys.exit(2)
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "isotrope"
    return f"{problem.rstrip('.')}: see {command} --help"


def _disk_line(error: OSError) -> str:
    if error.errno in FULL:
        file = f" ({error.filename})" if error.filename else ""
        return f"no space left on the disk{file}: free some, then go on"
    if error.filename is None:
        raise error
    return f"{error.filename} cannot be used ({error.strerror}): check its name and the file"


def _stopped_line(stopped: Stopped) -> str:
    line = str(stopped)
    return line if "goes on" in line else f"{line}; the same command goes on"


def _end(line: str, code: int) -> None:
    """End with one line. Of several processes the first speaks: all find the same mistake."""
    if process_number() > 0:
        # The first process to end decides the exit code, and has torchrun end the others.
        if code == 2:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            time.sleep(120)
        sys.exit(code)
    errors.print(f"isotrope: {' '.join(line.split())}", style="bold")
    sys.exit(code)


def _end_without_reader(end: BaseException) -> None:
    """End with exit code 0 if whoever reads the output has gone, as head does."""
    if isinstance(end, SystemExit) and not isinstance(end.__context__, BrokenPipeError):
        raise end
    # Python flushes the standard output once more at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)
