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
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from isotrope.cli.evaluate import case, evaluate, search
from isotrope.cli.groups import data, presets
from isotrope.cli.models import (
    compress,
    encode,
    export,
    improve,
    quickstart,
    report,
    train,
    whiten,
)
from isotrope.cli.study import study
from isotrope.console.plain import plain_console
from isotrope.console.processes import process_count, process_number
from isotrope.errors import Stopped, UserError
from isotrope.store.files import FULL

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
app.add_typer(presets, name="presets")
app.add_typer(data, name="data")
COMMANDS = (
    quickstart, improve, compress, train, report, encode, search, evaluate, case, whiten, export, study,
)  # fmt: skip
for command in COMMANDS:
    app.command()(command)
errors = plain_console(stderr=True)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"isotrope {version('isotrope')}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it, and end.")
    ] = False,
) -> None:
    """isotrope: text without labels in, a better sentence-embedding model out, and a verdict on it."""


def main() -> None:
    """Run the command line; every outcome has its exit code."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if (
            getattr(sys, name) is None
        ):  # closed by the shell (``>&-``): the next file that is opened would get its number
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w"))
    if process_count() == 1:
        _run()
        return
    # torchrun sends it to the others when one process has ended
    signal.signal(signal.SIGTERM, _told_to_end)
    with end_at_once():
        _run()


@contextmanager
def end_at_once() -> Iterator[None]:
    """End the process behind the block, with the block's exit code, before Python takes its objects
    apart.

    There the main thread may wait for a thread of gloo, which waits for the lock that the main
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


def _told_to_end(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise Stopped(
        "another process of this run has ended, or its launcher was stopped", code=128 + number
    )


def _run() -> None:
    _quiet()
    try:
        Path.cwd()
    except FileNotFoundError:
        _fail("the folder that you are in was deleted: change to another one", 2)
    try:
        if app(prog_name="isotrope", standalone_mode=False) == 130:  # what typer makes of Ctrl-C
            raise KeyboardInterrupt
        sys.stdout.flush()
    except UserError as error:
        _fail(str(error), 2)
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except typer.TyperException as error:
        context, problem = getattr(error, "ctx", None), error.format_message()
        if problem.startswith("Usage: "):  # a command without a word more gets its help
            errors.print(problem)
            sys.exit(2)
        _fail(
            f"{problem.rstrip('.')}: see {context.command_path if context else 'isotrope'} --help",
            2,
        )
    except (BrokenPipeError, SystemExit) as end:
        if isinstance(end, SystemExit) and not isinstance(end.__context__, BrokenPipeError):
            raise
        # the reader has gone, as head does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        if error.errno in FULL:
            place = f" ({error.filename})" if error.filename else ""
            _fail(f"no space left on the disk{place}: free some, then go on", 2)
        if error.filename is None:
            raise
        _fail(f"{error.filename} cannot be used ({error.strerror}): check its name and the file", 2)
    except Stopped as stopped:
        line = str(stopped)
        _fail(line if "goes on" in line else f"{line}; the same command goes on", stopped.code)
    except (KeyboardInterrupt, typer.Abort):
        _fail("stopped; nothing finished is lost: give the same command again", 130)


def _fail(line: str, code: int) -> None:
    """End with one line. Of several processes the first speaks, because a mistake of the user's is
    found by all.
    """
    if process_number() > 0:
        if code == 2:  # the first to end decides the exit code, and has torchrun end the others
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            time.sleep(120)
        sys.exit(code)
    errors.print(f"isotrope: {' '.join(line.split())}", style="bold")
    sys.exit(code)


def _quiet() -> None:
    """Other libraries' chatter hides what the user has to read. Threads that wait shall not take
    the user's cores.

    All of it must be said before torch is imported; what the user has set stays.
    """
    quiet = {
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "TRANSFORMERS_VERBOSITY": "error",
    }
    for name, value in {"OMP_WAIT_POLICY": "PASSIVE", **quiet}.items():
        os.environ.setdefault(name, value)
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")
