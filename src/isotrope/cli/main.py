"""The command line: thin over the package's functions.

Exit codes: 0 done, 2 the user's mistake (one line, with the remedy), 130 stopped by Ctrl-C, 1 ours.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
import warnings

import typer
from rich.console import Console

from isotrope.cli.data import app as data_app
from isotrope.cli.encode import encode
from isotrope.cli.evaluate import case, evaluate
from isotrope.cli.presets import app as presets_app
from isotrope.cli.pretrain import pretrain
from isotrope.cli.quickstart import quickstart
from isotrope.cli.report import report
from isotrope.cli.study import study
from isotrope.cli.train import train
from isotrope.cli.whiten import whiten
from isotrope.errors import Stopped, UserError

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
app.add_typer(presets_app, name="presets")
app.add_typer(data_app, name="data")
for command in (quickstart, train, report, encode, evaluate, case, whiten, pretrain, study):
    app.command()(command)
errors = Console(stderr=True)


@app.callback()
def _about() -> None:
    """isotrope: a pile of plain sentences in, a better sentence-embedding model out, and the truth about it."""


def main() -> None:
    """Run the command line; every outcome has its exit code."""
    _quiet()
    try:
        if app(prog_name="isotrope", standalone_mode=False) == 130:  # what typer makes of Ctrl-C
            raise KeyboardInterrupt
    except UserError as error:
        _fail(str(error), 2)
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except typer.TyperException as error:
        context, problem = getattr(error, "ctx", None), error.format_message()
        if problem.startswith("Usage: "):  # a command without a word more gets its help
            errors.print(problem, highlight=False, markup=False, soft_wrap=True)
            sys.exit(2)
        _fail(f"{problem.rstrip('.')}: see {context.command_path if context else 'isotrope'} --help", 2)
    except OSError as error:
        if error.errno not in (errno.ENAMETOOLONG, errno.ELOOP):
            raise
        _fail(f"{error.filename!s:.60}… cannot be used ({error.strerror}): choose another name", 2)
    except Stopped as stopped:
        _fail(f"{stopped}; go on with the same command and --resume", 130)
    except (KeyboardInterrupt, typer.Abort):
        _fail("stopped; nothing finished is lost: give the same command again (train: with --resume)", 130)


def _fail(line: str, code: int) -> None:
    errors.print(f"isotrope: {line}", style="bold", highlight=False, markup=False, soft_wrap=True)
    sys.exit(code)


def _quiet() -> None:
    """Other libraries' chatter hides what the user has to read."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")


if __name__ == "__main__":
    main()
