"""Run a plan's cells, several at a time, each in its own process, and show the progress."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.live import Live
from rich.table import Table as TerminalTable

from isotrope.console.plain import plain_console
from isotrope.console.progress import EVERY, FIRST, duration
from isotrope.console.threads import usable_cores
from isotrope.errors import Stopped, UserError
from isotrope.report.tables import Table, terminal
from isotrope.store.atomic import open_log, write_text
from isotrope.store.records import Record
from isotrope.study.cell import Cell
from isotrope.study.plan import StudyPlan

PATIENCE = 120  # seconds that a stopped cell has to save its checkpoint


@dataclass(slots=True)
class _Running:
    cell: Cell
    process: BaseProcess
    slot: int


def run_plan(plan: StudyPlan, workers: int, console: Console) -> dict[str, str]:
    """Run all cells that are not finished. If one fails, only the cells that need its model are not run.

    Args:
        plan: the cells.
        workers: processes at a time. The number changes no result: each uses the plan's number of threads. They take
            GPUs in turn.
        console: where progress is shown.

    Returns:
        Key -> one line, for each cell that failed or could not begin.
    """
    board = Board(plan, workers, console)
    waiting = _in_order(plan, board)
    running: list[_Running] = []
    if hint := _hint(workers, waiting):
        board.say(hint)
    context = _processes()
    try:
        with board:
            while waiting or running:
                for cell in [c for c in waiting if board.lost.keys() & c.needs]:
                    waiting.remove(cell)
                    board.failed(cell, "a model that it needs failed")
                for cell in [c for c in waiting if board.results.keys() >= set(c.needs)]:
                    if len(running) == workers:
                        break
                    waiting.remove(cell)
                    slot = min(set(range(workers)) - {one.slot for one in running})
                    running.append(_started(context, cell, slot))
                    board.started(cell)
                multiprocessing.connection.wait([one.process.sentinel for one in running], timeout=1)
                board.tick()
                for one in [one for one in running if not one.process.is_alive()]:
                    running.remove(one)
                    one.process.join()
                    if record := one.cell.record():
                        board.finished(one.cell, record)
                    else:
                        board.failed(one.cell, _why(one))
    except KeyboardInterrupt:
        _stop(running)
        raise Stopped("stopped; finished cells are kept, and the same command goes on") from None
    return board.lost


def _in_order(plan: StudyPlan, board: "Board") -> list[Cell]:
    """The cells to run. Those whose models others need come first."""
    needed = {key for cell in plan.cells.values() for key in cell.needs}
    waiting = [cell for cell in plan.cells.values() if cell.key not in board.results]
    return sorted(waiting, key=lambda cell: cell.key not in needed)


def _hint(workers: int, waiting: list[Cell]) -> str:
    """Advice on --workers if cores would be idle; else ""."""
    if not waiting or torch.cuda.is_available():
        return ""
    threads, cores = waiting[0].threads, usable_cores()
    possible = min(len(waiting), cores // threads)
    return (
        f"{workers * threads} of {cores} cores are used: --workers {possible} is faster" if possible > workers else ""
    )


def _processes() -> Any:
    """The way to start processes. A server imports everything once; each cell is a fork of it."""
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context: Any = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(["isotrope.study.run_cell"])
    return context


def _started(context: Any, cell: Cell, slot: int) -> _Running:
    cell.log.parent.mkdir(exist_ok=True)
    process = context.Process(target=_work, args=(cell, slot), name=cell.key)
    process.start()
    return _Running(cell, process, slot)


def _why(one: _Running) -> str:
    """One line for a cell that ended without a result."""
    if one.cell.error.is_file():
        return one.cell.error.read_text(encoding="utf-8").strip()
    code = one.process.exitcode or 0
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"code {code}"
    return f"its process ended with {name} (out of memory?); see {_log(one.cell)}"


def _log(cell: Cell) -> str:
    """The path of the log within the study's folder: records must not hold paths of this machine."""
    return f"cells/{cell.log.name}"


def _stop(running: Iterable[_Running]) -> None:
    """Ask every running cell to save a checkpoint and end. A second Ctrl-C ends them at once."""
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


def _work(cell: Cell, slot: int) -> None:
    """Runs in the cell's process: sets threads and GPU, writes a log, and one line if it fails."""
    from isotrope.study.run_cell import run_cell

    if hasattr(os, "setpgrp"):
        os.setpgrp()  # the terminal's Ctrl-C reaches only the study, which passes it on
    threading.Thread(target=_die_with_the_study, daemon=True).start()
    torch.set_num_threads(cell.threads)
    if gpus := torch.cuda.device_count():
        os.environ["CUDA_VISIBLE_DEVICES"] = _visible(slot % gpus)
    cell.error.unlink(missing_ok=True)
    with open_log(cell.log) as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            run_cell(cell, plain_console(file=log, width=120))
        except (Stopped, KeyboardInterrupt):
            sys.exit(130)
        except UserError as error:
            _fail(cell.error, str(error))
        except Exception as error:
            traceback.print_exc(file=log)
            _fail(cell.error, f"{type(error).__name__}: {' '.join(str(error).split())}; see {_log(cell)}")


def _fail(file: Path, line: str) -> None:
    write_text(file, line)
    sys.exit(1)


def _die_with_the_study() -> None:
    """End this process when the study's process ends, however it ends."""
    study = multiprocessing.parent_process()
    if study is not None:
        study.join()
        os._exit(1)


def _visible(index: int) -> str:
    """The name of the GPU with this index among those that this process may use."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return given.split(",")[index] if given else str(index)


class Board:
    """Shows each row's finished seeds and mean so far, and the time left.

    Attributes:
        results: key -> record of each finished cell.
        lost: key -> one line, for each cell that failed or could not begin.
    """

    def __init__(self, plan: StudyPlan, workers: int, console: Console) -> None:
        """Read the finished cells; report damaged records."""
        self.plan, self.workers, self.console = plan, workers, console
        self.results: dict[str, Record] = {}
        self.lost: dict[str, str] = {}
        self.begun: dict[str, float] = {}
        self.seconds: list[float] = []  # of the cells that this call has run
        self.due = time.monotonic() + FIRST  # when a line says what runs, where there is no terminal
        self.drawn = ExitStack()
        for cell in plan.cells.values():
            if record := cell.record():
                self.results[cell.key] = record
            elif cell.damaged:
                self.say(f"{cell.folder} is damaged: {_name(cell)} is run again")

    def __enter__(self) -> "Board":
        if self.console.is_terminal:
            self.drawn.enter_context(Live(self, console=self.console, refresh_per_second=1, transient=True))
        return self

    def __exit__(self, *_: object) -> None:
        self.drawn.close()

    def started(self, cell: Cell) -> None:
        """A cell begins."""
        self.begun[cell.key] = time.monotonic()

    def finished(self, cell: Cell, record: Record) -> None:
        """A cell has its result."""
        self.seconds.append(time.monotonic() - self.begun.pop(cell.key))
        self.results[cell.key] = record
        scores = record["scores"]
        column = next((name for name in ("Avg.", "dev") if name in scores), None)
        said = f": {column} {scores[column]:.2f}" if column else ""
        self.say(f"{_name(cell)}{said} ({duration(self.seconds[-1])}); {self._left()}")

    def failed(self, cell: Cell, why: str) -> None:
        """A cell has none."""
        self.begun.pop(cell.key, None)
        self.lost[cell.key] = why
        self.say(f"{_name(cell)} failed: {why}")

    def tick(self) -> None:
        """Time passes: where there is no terminal, say now and then what runs."""
        if self.begun and not self.console.is_terminal and time.monotonic() >= self.due:
            self.due = time.monotonic() + EVERY
            self.say(f"{self._running()}; {self._left()}")

    def _running(self) -> str:
        now = time.monotonic()
        cells = [f"{_name(self.plan.cells[key])} ({duration(now - began)})" for key, began in self.begun.items()]
        return f"running: {', '.join(cells) or 'nothing'}"

    def say(self, line: str) -> None:
        """Print a line as it is, on whatever console the caller gave."""
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _left(self) -> str:
        """The time left, from the mean time of finished cells. A running cell counts with the rest of that time."""
        missing = [key for key in self.plan.cells if key not in self.results and key not in self.lost]
        if not missing:
            return "nothing is left"
        count = f"{len(missing)} of {len(self.plan.cells)} cells left"
        if not self.seconds:
            return count
        mean, now = sum(self.seconds) / len(self.seconds), time.monotonic()
        needed = sum(max(0.0, mean - (now - self.begun[key])) if key in self.begun else mean for key in missing)
        return f"{count}, {duration(needed / self.workers)}"

    def __rich__(self) -> TerminalTable:
        teachers = {f"teacher {name}": {0: key} for name, key in self.plan.models.items()}
        rows = [self._row(label, list(keys.values())) for label, keys in {**teachers, **self.plan.rows}.items()]
        header = ["row", "seeds done", "running", "mean so far"]
        return terminal(Table(self.plan.spec.title, header, rows, notes=[self._running(), self._left()]))

    def _row(self, label: str, keys: list[str]) -> list[str]:
        done = [self.results[key]["scores"] for key in keys if key in self.results]
        values = [scores.get("Avg.", scores.get("dev")) for scores in done]
        known = [value for value in values if value is not None]
        failed = sum(key in self.lost for key in keys)
        count = f"{len(done)} of {len(keys)}" + (f", {failed} failed" if failed else "")
        running = sum(key in self.begun for key in keys)
        return [label, count, str(running or ""), f"{sum(known) / len(known):.2f}" if known else "—"]


def _name(cell: Cell) -> str:
    return f"{cell.label}, seed {cell.seed}"
