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
from isotrope.store.files import Record, open_log, write_text
from isotrope.study.cell import Cell
from isotrope.study.plan import StudyPlan

PATIENCE = 120  # seconds that a stopped cell has to save its checkpoint


def run_plan(plan: StudyPlan, workers: int, console: Console) -> dict[str, str]:
    """Run all cells that are not finished -> key: one line, for each that failed or needs the model
    of one that failed.

    ``workers`` processes run at a time and take GPUs in turn. Their number changes no result, since
    each uses the plan's number of threads.
    """
    lost: dict[str, str] = {}
    done = {key for key, cell in plan.cells.items() if cell.record()}
    needed = {key for cell in plan.cells.values() for key in cell.needs}
    waiting = [cell for cell in plan.cells.values() if cell.key not in done]
    # those whose models others need come first
    waiting.sort(key=lambda cell: cell.key not in needed)
    # by the slot that a process has, and so the GPU
    running: dict[int, tuple[BaseProcess, Cell]] = {}

    def fail(cell: Cell, why: str) -> None:
        lost[cell.key] = why
        console.print(Text(f"{cell} failed: {why}"))

    for cell in waiting:
        if cell.job.lost:
            console.print(Text(f"{cell.folder} is damaged: {cell} is run again"))
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
                    slot = min(set(range(workers)) - running.keys())
                    cell.folder.parent.mkdir(exist_ok=True)
                    process = context.Process(target=_work, args=(cell, slot), name=cell.key)
                    process.start()
                    running[slot] = process, cell
                multiprocessing.connection.wait(
                    [process.sentinel for process, _ in running.values()], timeout=1
                )
                for slot, (process, cell) in [*running.items()]:
                    if process.is_alive():
                        continue
                    del running[slot]
                    process.join()
                    if record := cell.record():
                        done.add(cell.key)
                        console.print(Text(_finished(cell, record)))
                    else:
                        fail(cell, _why(cell, process.exitcode or 0))
    except KeyboardInterrupt:
        _stop([process for process, _ in running.values()])
        raise Stopped("stopped; finished cells are kept, and the same command goes on") from None
    return lost


def _why(cell: Cell, code: int) -> str:
    """One line for a cell that ended without a result."""
    if (file := cell.beside("error.txt")).is_file():
        return file.read_text(encoding="utf-8").strip()
    name = signal.Signals(-code).name if code < 0 else f"code {code}"
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
    torch.set_num_threads(cell.run.threads)
    if gpus := torch.cuda.device_count():
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")  # names of those that this process may use
        os.environ["CUDA_VISIBLE_DEVICES"] = (
            visible.split(",")[slot % gpus] if visible else str(slot % gpus)
        )
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
            write_text(
                failed, f"{type(error).__name__}: {' '.join(str(error).split())}; see {cell.log}"
            )
            sys.exit(1)


def _die_with_the_study() -> None:
    """End this process when the study's process ends, however it ends."""
    if study := multiprocessing.parent_process():
        study.join()
        os._exit(1)


def _finished(cell: Cell, record: Record) -> str:
    """A finished cell with its score and its time, as a line."""
    scores = [
        f": {column} {record['scores'][column]:.2f}"
        for column in ("Avg.", "dev")
        if column in record["scores"]
    ]
    return f"{cell}{''.join(scores[:1])} ({duration(record['seconds']['cell'])})"
