"""Does today's code give what a study's record says? One recorded cell is run again and compared."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch

from isotrope.console.plain import plain_console
from isotrope.errors import UserError, check_known
from isotrope.store.files import Record, read_record
from isotrope.store.job import differences
from isotrope.study.cell import without_paths
from isotrope.study.columns import COST, SHAPE, shown
from isotrope.study.execute import run_plan
from isotrope.study.plan import StudyPlan
from isotrope.study.study import Options, with_options

# points that printed digits hide; how many times as much other versions may differ
PRINTED, ELSEWHERE = 0.005, 100
# of an environment, the last digits
DECIDES = ("python", "system", "kernels", "threads", "gpus", "packages")


@dataclass(frozen=True, slots=True)
class Verification:
    """A cell's recorded scores and those of today; numbers are points, or the measures of `SHAPE`
    as they are.
    """

    cell: str
    then: Mapping[str, float]
    now: Mapping[str, float]
    within: float  # what the two may differ by: points; a tenth of it for the measures of `SHAPE`
    changed: Sequence[str]  # settings, versions and machine that are not those of the record

    @property
    def beyond(self) -> list[str]:
        """The columns that differ by more, or are not measured now."""
        allowed = {column: self.within * (0.1 if column in SHAPE else 1) for column in self.then}
        return [
            c
            for c, old in self.then.items()
            if not abs(self.now.get(c, np.inf) - old) <= allowed[c]
        ]

    def __str__(self) -> str:
        """One line with the answer, then one for what has changed since."""
        told = [
            f"{c} {shown(c, self.then[c])} → {shown(c, self.now.get(c, np.nan))}"
            for c in self.beyond
        ]
        most = max(
            (abs(self.now.get(c, np.nan) - old) for c, old in self.then.items()), default=0.0
        )
        equal = f"equal to its record within {self.within:g} points, at most {most:.3f} apart"
        answer = f"differs from its record by more than {self.within:g} points: {', '.join(told)}"
        since = f"\nsince then: {'; '.join(self.changed)}" if self.changed else ""
        return f"{self.cell}: {answer if told else equal}{since}"


def verify(
    file: str | Path, *, cell: str = "", seed: int = 0, **options: Unpack[Options]
) -> Verification:
    """Run one cell of ``study.json`` in the study's folder again, with all that it needs, and
    compare the scores.

    With equal versions, processor and threads the scores must be those that are printed; else they
    may differ by 0.5 points, less than which no claim calls an advantage. isotrope's own version is
    no excuse. Nothing is written there. A training on a GPU is repeated only on a GPU, because
    dropout's random numbers there are not the processor's.

    Args:
        file: the study, with the options that it was run with.
        cell: as the log calls it, "SimCSE, seed 0"; "": one is drawn.
        seed: of the draw.
        options: those that the study was run with; ``seeds`` and ``rows`` are taken from the cell.

    Raises:
        UserError: the folder has no records, or not this cell; the cell was trained on another kind
            of device; or as in `isotrope.study.study`.
    """
    remedy = "name the --output of a study that has run"
    record = read_record(
        Path(options["output"]) / "study.json", {"rows": list, "cells": dict}, remedy
    )
    recorded = {
        f"{row['label']}, seed {number}": (row, number)
        for row in record["rows"]
        for number in (row["scores"] if row["kind"] != "teacher" else ())
    }
    cell = (
        cell
        or ([*recorded] or ["of a finished run"])[
            np.random.default_rng(seed).integers(len(recorded) or 1)
        ]
    )
    check_known("the cell", cell, recorded)
    row, number = recorded[cell]
    on_gpu = bool(
        record["environments"][record["cells"][row["cells"][number]]["environment"]].get("gpus")
    )
    if row["kind"] == "row" and on_gpu != torch.cuda.is_available():
        problem = f"{cell} was trained {'on a GPU' if on_gpu else 'without a GPU'}, where dropout draws other numbers"
        where = (
            "with a GPU" if on_gpu else "without a GPU, or with CUDA_VISIBLE_DEVICES set to nothing"
        )
        raise UserError(
            problem,
            f"verify it on a machine {where}, or name a cell that was not trained, with --cell",
        )
    console = options.get("console") or plain_console()
    with tempfile.TemporaryDirectory(prefix="isotrope-") as folder:
        options |= {"output": folder, "seeds": int(number) + 1, "rows": [row["base"]]}
        plan = StudyPlan(*with_options(file, options), [row["label"]], options.get("sweep"))
        key = plan.rows[row["label"]][int(number)]
        needed = {key}
        for one in reversed(plan.cells.values()):  # a cell comes after those that it needs
            needed |= {*one.needs} if one.key in needed else set()
        plan.cells = {one: of for one, of in plan.cells.items() if one in needed}
        if failed := run_plan(plan, options.get("workers", 1), console):
            raise UserError(
                f"{cell} failed: {failed[key]}", "give the options that the study was run with"
            )
        found = json.loads(json.dumps(plan.cells[key].record()))
    return compared(cell, record, row["cells"][number], row["scores"][number], found)


def compared(
    cell: str, record: Record, key: str, then: Mapping[str, float], found: Record
) -> Verification:
    """A recorded cell, its key and its scores beside the ``result.json`` of the same cell today."""
    old, new = record["cells"][key], found["environment"]
    machine = record["environments"][old["environment"]]
    alike = _deciding(machine, machine) == _deciding(new, machine)
    within = PRINTED * (1 if alike else ELSEWHERE)
    changed = differences(record["settings"][old["settings"]], without_paths(found["settings"]))
    if not changed and found["key"] != key:
        changed = ["other text, pairs, model files or tasks"]
    then = {column: score for column, score in then.items() if column not in COST}
    changed += differences(machine, _named(new, machine))
    return Verification(cell, then, found["scores"], within, changed)


def _named(machine: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """What a record names of a machine: an older one names fewer things and packages."""
    packages = {name: machine["packages"].get(name) for name in record["packages"]}
    return {name: machine.get(name) for name in record} | {"packages": packages}


def _deciding(machine: Mapping[str, Any], record: Mapping[str, Any]) -> list[Any]:
    found = _named(machine, record)
    found["packages"]["isotrope"] = ""
    return [found.get(name) for name in DECIDES]
