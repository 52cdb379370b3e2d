"""Run a plan's cells, several at a time, each in its own process, and show the progress."""

import gc
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterable
from multiprocessing.process import BaseProcess
from typing import Any

import torch
from rich.console import Console
from rich.text import Text

from isotrope.console.plain import plain_console
from isotrope.console.progress import duration, progress
from isotrope.errors import Stopped, UserError
from isotrope.store.files import open_log, write_text
from isotrope.study.cell import THREADS, Cell
from isotrope.study.plan import StudyPlan
from isotrope.study.record import CellResult

PATIENCE = 120  # seconds that a stopped cell has to save its checkpoint


def run_plan(plan: StudyPlan, workers: int, console: Console) -> dict[str, str]:
    """Run all cells that are not finished -> key: one line, for each that failed or needs the model
    of one that failed.

    ``workers`` processes run at a time and take GPUs in turn. Their number changes no result, since
    each uses the same number of threads.
    """
    run = PlanRun(plan, workers, console)
    try:
        with progress("ran", len(plan.cells), console, "cells") as bar:
            while run.waiting or run.running:
                ended = len(run.finished) + len(run.failed)
                running = len(run.running)
                bar.update(ended, note=f"{running} running" if running else "")
                run.drop_impossible_cells()
                run.start_cells()
                run.collect_ended_cells()
    except KeyboardInterrupt:
        _stop([process for process, _ in run.running.values()])
        raise Stopped("stopped; finished cells are kept, and the same command goes on") from None
    return run.failed


class PlanRun:
    """The cells of a plan while they run: which wait, run, are finished, or failed."""

    def __init__(self, plan: StudyPlan, workers: int, console: Console) -> None:
        self.console = console
        self.slots = range(workers)  # a process's slot decides its GPU
        self.running: dict[int, tuple[BaseProcess, Cell]] = {}  # by slot
        self.failed: dict[str, str] = {}  # key -> why
        cells = plan.cells.values()
        self.finished = {cell.key for cell in cells if cell.result()}
        waiting = [cell for cell in cells if cell.key not in self.finished]
        # those whose models others need come first
        needed = {key for cell in cells for key in cell.needs}
        self.waiting = sorted(waiting, key=lambda cell: cell.key not in needed)
        for cell in self.waiting:
            if cell.job.lost:
                line = f"{cell.folder} is damaged: {cell} is run again"
                console.print(Text(line))
        self._processes = _process_context()

    def drop_impossible_cells(self) -> None:
        """Let the cells fail whose models have failed."""
        impossible = [cell for cell in self.waiting if self.failed.keys() & cell.needs]
        for cell in impossible:
            self.waiting.remove(cell)
            self._fail(cell, "a model that it needs failed")

    def start_cells(self) -> None:
        """Start cells that have all they need, one for each free slot."""
        free = [slot for slot in self.slots if slot not in self.running]
        ready = [cell for cell in self.waiting if self.finished.issuperset(cell.needs)]
        for slot, cell in zip(free, ready, strict=False):
            self.waiting.remove(cell)
            cell.folder.parent.mkdir(exist_ok=True)
            process = self._processes.Process(target=_work, args=(cell, slot), name=cell.key)
            process.start()
            self.running[slot] = (process, cell)

    def collect_ended_cells(self) -> None:
        """Wait a second at most, then take the processes that have ended out of their slots."""
        sentinels = [process.sentinel for process, _ in self.running.values()]
        multiprocessing.connection.wait(sentinels, timeout=1)
        for slot, (process, cell) in [*self.running.items()]:
            if process.is_alive():
                continue
            del self.running[slot]
            process.join()
            if result := cell.result():
                self.finished.add(cell.key)
                self.console.print(Text(_finished_line(cell, result)))
            else:
                self._fail(cell, _why(cell, process.exitcode or 0))

    def _fail(self, cell: Cell, why: str) -> None:
        self.failed[cell.key] = why
        self.console.print(Text(f"{cell} failed: {why}"))


def _process_context() -> Any:
    """How processes start. Where it can, a server imports everything once, and each cell is a fork
    of it.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["isotrope.study.run_cell"])
    return context


def _why(cell: Cell, code: int) -> str:
    """One line for a cell that ended without a result."""
    file = cell.beside("error.txt")
    if file.is_file():
        return file.read_text(encoding="utf-8").strip()
    name = f"code {code}"
    if code < 0:
        name = signal.Signals(-code).name
    return f"its process ended with {name} (out of memory?); see {cell.log}"


def _stop(running: Iterable[BaseProcess]) -> None:
    """Ask every running cell to save a checkpoint and end. A second Ctrl-C ends them at once."""
    try:
        for process in running:
            if process.is_alive() and process.pid:
                os.kill(process.pid, signal.SIGINT)
        for process in running:
            process.join(PATIENCE)
    finally:
        for process in running:
            process.kill()
            process.join()


def _work(cell: Cell, slot: int) -> None:
    """Runs in the cell's process: sets threads and GPU, writes a log, and one line if it fails."""
    from isotrope.study.run_cell import run_cell

    if hasattr(os, "setpgrp"):
        os.setpgrp()  # the terminal's Ctrl-C reaches only the study, which passes it on
    # what is imported by now is no garbage: else each collection takes most of a second
    gc.freeze()
    threading.Thread(target=_die_with_the_study, daemon=True).start()
    torch.set_num_threads(THREADS)
    _choose_gpu(slot)
    error_file = cell.beside("error.txt")
    error_file.unlink(missing_ok=True)
    with open_log(cell.beside("log")) as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            run_cell(cell, plain_console(file=log, width=120))
        except (Stopped, KeyboardInterrupt):
            sys.exit(130)
        except UserError as error:
            write_text(error_file, str(error))
            sys.exit(1)
        except Exception as error:
            traceback.print_exc(file=log)
            name = type(error).__name__
            message = " ".join(str(error).split())
            write_text(error_file, f"{name}: {message}; see {cell.log}")
            sys.exit(1)


def _choose_gpu(slot: int) -> None:
    """Let this process see one GPU, by its slot."""
    count = torch.cuda.device_count()
    if not count:
        return
    name = str(slot % count)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")  # names of those that this process may use
    if visible:
        name = visible.split(",")[slot % count]
    os.environ["CUDA_VISIBLE_DEVICES"] = name


def _die_with_the_study() -> None:
    """End this process when the study's process ends, however it ends."""
    if study := multiprocessing.parent_process():
        study.join()
        os._exit(1)


def _finished_line(cell: Cell, result: CellResult) -> str:
    """A finished cell with its score and its time, as a line."""
    took = duration(result.seconds["cell"])
    for column in ("Avg.", "dev"):
        score = result.scores.get(column)
        if score is not None:
            return f"{cell}: {column} {score:.2f} ({took})"
    return f"{cell} ({took})"
