"""Run a plan's cells: several at a time, each in a process of its own, with a table that shows how far it is."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.live import Live

from isotrope.errors import Stopped, UserError
from isotrope.study.plan import Cell, StudyPlan
from isotrope.study.progress import Board

ERROR, LOG = "error.txt", "log.txt"
PATIENCE = 120  # seconds that a stopped cell has to save its checkpoint


@dataclass(slots=True)
class _Running:
    cell: Cell
    process: BaseProcess
    slot: int


@dataclass(slots=True)
class Outcome:
    """What became of the cells: key -> one line, for those that failed or could not begin."""

    failed: dict[str, str] = field(default_factory=dict)


def run_plan(plan: StudyPlan, jobs: int, console: Console) -> Outcome:
    """Run all cells that are not finished; one that fails stops none of the others, but those that need its model.

    Args:
        plan: the cells.
        jobs: processes at a time; the machine's cores are divided among them, its GPUs dealt out in turn.
        console: where progress is shown.

    Raises:
        UserError: ``jobs`` is below 1.
        Stopped: Ctrl-C; every running cell has saved where it is, and the same command goes on.
    """
    if jobs < 1:
        raise UserError(f"jobs = {jobs}", "choose 1 or more")
    waiting = _in_order(plan)
    running: list[_Running] = []
    outcome, board = Outcome(), Board(plan, jobs, console)
    # A server imports everything once; each cell is a fork of it, so that none waits for imports or shares memory.
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context: Any = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(["isotrope.study.cell"])
    try:
        with Live(board, console=console, refresh_per_second=1, transient=True) if console.is_terminal else board:
            while waiting or running:
                for cell in [c for c in waiting if any(key in outcome.failed for key in c.needs)]:
                    waiting.remove(cell)
                    _note(outcome, board, cell, "a model that it needs failed")
                for cell in [c for c in waiting if all(plan.cells[key].finished for key in c.needs)]:
                    if len(running) == jobs:
                        break
                    waiting.remove(cell)
                    slot = min(set(range(jobs)) - {one.slot for one in running})
                    process = context.Process(target=_work, args=(cell, jobs, slot), name=cell.label)
                    process.start()
                    running.append(_Running(cell, process, slot))
                    board.started(cell)
                multiprocessing.connection.wait([one.process.sentinel for one in running], timeout=1)
                for one in [one for one in running if not one.process.is_alive()]:
                    running.remove(one)
                    one.process.join()
                    if one.cell.finished:
                        board.finished(one.cell)
                    else:
                        _note(outcome, board, one.cell, _why(one))
    except KeyboardInterrupt:
        _stop(running)
        raise Stopped("stopped; finished cells are kept") from None
    return outcome


def _in_order(plan: StudyPlan) -> list[Cell]:
    """The cells to run, those first whose models others need."""
    needed = {key for cell in plan.cells.values() for key in cell.needs}
    waiting = [cell for cell in plan.cells.values() if not cell.finished]
    return sorted(waiting, key=lambda cell: cell.key not in needed)


def _note(outcome: Outcome, board: Board, cell: Cell, why: str) -> None:
    outcome.failed[cell.key] = why
    board.failed(cell, why)


def _why(one: _Running) -> str:
    """One line for a cell that ended without a result."""
    path = one.cell.folder / ERROR
    if path.is_file():
        return path.read_text(encoding="utf-8").strip()
    code = one.process.exitcode or 0
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"code {code}"
    return f"its process ended with {name} (out of memory?); see {_log(one.cell)}"


def _log(cell: Cell) -> str:
    """Below the study's folder: the line goes into the record, which names no place of this machine."""
    return f"cells/{cell.folder.name}/{LOG}"


def _stop(running: Iterable[_Running]) -> None:
    """Ask every cell to save its checkpoint and end; a second Ctrl-C ends them at once."""
    try:
        for one in running:
            if one.process.is_alive() and one.process.pid:
                os.kill(one.process.pid, signal.SIGINT)
        for one in running:
            one.process.join(PATIENCE)
    finally:
        for one in running:
            one.process.kill()
            one.process.join()


def _work(cell: Cell, jobs: int, slot: int) -> None:
    """In the cell's process: its share of the machine, its own log, and one line if it fails."""
    from isotrope.study.cell import run_cell

    if hasattr(os, "setpgrp"):
        os.setpgrp()  # the terminal's Ctrl-C reaches the study alone, which hands it on
    threading.Thread(target=_die_with_the_study, daemon=True).start()
    torch.set_num_threads(max(1, _cores() // jobs))
    if gpus := torch.cuda.device_count():
        os.environ["CUDA_VISIBLE_DEVICES"] = _visible(slot % gpus)
    cell.folder.mkdir(parents=True, exist_ok=True)
    (cell.folder / ERROR).unlink(missing_ok=True)
    with (cell.folder / LOG).open("a", encoding="utf-8") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            run_cell(cell, Console(file=log, width=120))
        except (Stopped, KeyboardInterrupt):
            sys.exit(130)
        except UserError as error:
            _fail(cell.folder, str(error))
        except Exception as error:
            traceback.print_exc(file=log)
            _fail(cell.folder, f"{type(error).__name__}: {' '.join(str(error).split())}; see {_log(cell)}")


def _fail(folder: Path, line: str) -> None:
    (folder / ERROR).write_text(line, encoding="utf-8")
    sys.exit(1)


def _die_with_the_study() -> None:
    """A killed study leaves no process behind."""
    study = multiprocessing.parent_process()
    if study is not None:
        study.join()
        os._exit(1)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _visible(index: int) -> str:
    """The name of the GPU of that place among those that this process may use."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return given.split(",")[index] if given else str(index)
