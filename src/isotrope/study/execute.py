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
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

import torch
from rich.console import Console

from isotrope.console.plain import plain_console
from isotrope.console.progress import duration, progress
from isotrope.console.threads import usable_cores
from isotrope.errors import Stopped, UserError
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
    began: float


def run_plan(plan: StudyPlan, workers: int, console: Console) -> dict[str, str]:
    """Run all cells that are not finished. If one fails, only the cells that need its model are not run.

    ``workers`` processes run at a time and take GPUs in turn. Their number changes no result, since each uses the
    plan's number of threads.

    Returns:
        Key -> one line, for each cell that failed or could not begin.
    """
    lost: dict[str, str] = {}
    done = {key for key, cell in plan.cells.items() if cell.record()}
    needed = {key for cell in plan.cells.values() for key in cell.needs}
    waiting = [cell for cell in plan.cells.values() if cell.key not in done]
    waiting.sort(key=lambda cell: cell.key not in needed)  # those whose models others need come first
    running: list[_Running] = []

    def say(line: str) -> None:
        """Print a line as it is, on whatever console the caller gave."""
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    def fail(cell: Cell, why: str) -> None:
        lost[cell.key] = why
        say(f"{_name(cell)} failed: {why}")

    for cell in waiting:
        if cell.damaged:
            say(f"{cell.folder} is damaged: {_name(cell)} is run again")
    if waiting and not torch.cuda.is_available():
        threads, cores = waiting[0].run.threads, usable_cores()
        if (possible := min(len(waiting), cores // threads)) > workers:
            say(f"{workers * threads} of {cores} cores are used: --workers {possible} is faster")
    forks = "forkserver" in multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if forks else "spawn")
    if forks:  # the server imports everything once, and each cell is a fork of it
        context.set_forkserver_preload(["isotrope.study.run_cell"])
    try:
        with progress("ran", len(plan.cells), console, "cells") as bar:
            while waiting or running:
                bar.update(len(done) + len(lost), note=f"{len(running)} running" if running else "")
                for cell in [c for c in waiting if lost.keys() & c.needs]:
                    waiting.remove(cell)
                    fail(cell, "a model that it needs failed")
                for cell in [c for c in waiting if done >= set(c.needs)][: workers - len(running)]:
                    waiting.remove(cell)
                    slot = min(set(range(workers)) - {one.slot for one in running})
                    cell.folder.parent.mkdir(exist_ok=True)
                    process = context.Process(target=_work, args=(cell, slot), name=cell.key)
                    process.start()
                    running.append(_Running(cell, process, slot, time.monotonic()))
                multiprocessing.connection.wait([one.process.sentinel for one in running], timeout=1)
                for one in [one for one in running if not one.process.is_alive()]:
                    running.remove(one)
                    one.process.join()
                    if record := one.cell.record():
                        done.add(one.cell.key)
                        say(_finished(one, record))
                    else:
                        fail(one.cell, _why(one))
    except KeyboardInterrupt:
        _stop(running)
        raise Stopped("stopped; finished cells are kept, and the same command goes on") from None
    return lost


def _why(one: _Running) -> str:
    """One line for a cell that ended without a result."""
    if (file := one.cell.beside("error.txt")).is_file():
        return file.read_text(encoding="utf-8").strip()
    code = one.process.exitcode or 0
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"code {code}"
    return f"its process ended with {name} (out of memory?); see {_log(one.cell)}"


def _log(cell: Cell) -> str:
    """The path of the log within the study's folder, since records must not hold paths of this machine."""
    return f"cells/{cell.beside('log').name}"


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
    torch.set_num_threads(cell.run.threads)
    if gpus := torch.cuda.device_count():
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")  # names of those that this process may use
        os.environ["CUDA_VISIBLE_DEVICES"] = visible.split(",")[slot % gpus] if visible else str(slot % gpus)
    failed = cell.beside("error.txt")
    failed.unlink(missing_ok=True)
    with open_log(cell.beside("log")) as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            run_cell(cell, plain_console(file=log, width=120))
        except (Stopped, KeyboardInterrupt):
            sys.exit(130)
        except UserError as error:
            write_text(failed, str(error))
            sys.exit(1)
        except Exception as error:
            traceback.print_exc(file=log)
            write_text(failed, f"{type(error).__name__}: {' '.join(str(error).split())}; see {_log(cell)}")
            sys.exit(1)


def _die_with_the_study() -> None:
    """End this process when the study's process ends, however it ends."""
    study = multiprocessing.parent_process()
    if study is not None:
        study.join()
        os._exit(1)


def _finished(one: _Running, record: Record) -> str:
    """A finished cell with its score and its time, as a line."""
    scores = record["scores"]
    column = next((name for name in ("Avg.", "dev") if name in scores), None)
    said = f": {column} {scores[column]:.2f}" if column else ""
    return f"{_name(one.cell)}{said} ({duration(time.monotonic() - one.began)})"


def _name(cell: Cell) -> str:
    return f"{cell.label}, seed {cell.seed}"
