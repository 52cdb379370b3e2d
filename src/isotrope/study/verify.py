"""Does today's code give what a study's record says? One recorded cell is run again and
compared.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch

from isotrope.console.plain import plain_console
from isotrope.errors import UserError, check_known
from isotrope.store.files import Record
from isotrope.store.job import differences
from isotrope.study.cell import Cell, without_paths
from isotrope.study.columns import COST, SHAPE, shown
from isotrope.study.execute import run_plan
from isotrope.study.plan import StudyPlan
from isotrope.study.record import CellResult, Scores, StudyRecord, StudyRow
from isotrope.study.study import Options, plan_study

PRINTED = 0.005  # points that printed digits hide
ELSEWHERE = 100  # how many times as much other versions may differ
# what decides the last digits, of an environment
PROCESSOR = "kernels"
DECIDES = ("python", "system", PROCESSOR, "threads", "gpus", "packages")


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
    def apart(self) -> Scores:
        """Column -> how far apart the two scores are; NaN if it is not measured now."""
        apart = {}
        for column, then in self.then.items():
            now = self.now.get(column, np.nan)
            apart[column] = abs(now - then)
        return apart

    @property
    def beyond(self) -> list[str]:
        """The columns that differ by more, or are not measured now."""
        beyond = []
        for column, change in self.apart.items():
            within = 0.1 * self.within if column in SHAPE else self.within
            if not change <= within:
                beyond.append(column)
        return beyond

    def __str__(self) -> str:
        """One line with the answer, then one for what has changed since."""
        within = f"{self.within:g} points"
        largest = max(self.apart.values(), default=0.0)
        answer = f"equal to its record within {within}, at most {largest:.3f} apart"
        changes = []
        for column in self.beyond:
            then = shown(column, self.then[column])
            now = shown(column, self.now.get(column, np.nan))
            changes.append(f"{column} {then} → {now}")
        if changes:
            answer = f"differs from its record by more than {within}: {', '.join(changes)}"
        since = f"\nsince then: {'; '.join(self.changed)}" if self.changed else ""
        return f"{self.cell}: {answer}{since}"


@dataclass(frozen=True, slots=True)
class RecordedCell:
    """A finished cell of ``study.json``."""

    row: StudyRow
    seed: int

    def __str__(self) -> str:
        """As the log calls it: "SimCSE, seed 0"."""
        return f"{self.row.label}, seed {self.seed}"

    @property
    def key(self) -> str:
        """The checksum of all that decided its result."""
        return self.row.cells[self.seed]

    @property
    def scores(self) -> Scores:
        """Column -> its recorded score."""
        return self.row.scores[self.seed]


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
    record = StudyRecord.read(Path(options["output"]))
    recorded = _recorded_cell(record, cell, seed)
    _check_device(recorded, record)
    with tempfile.TemporaryDirectory(prefix="isotrope-") as folder:
        options |= {
            "output": folder,
            "seeds": recorded.seed + 1,
            "rows": [recorded.row.label],
        }
        result = _run_again(file, recorded, options)
    return compared(recorded, record, result)


def _recorded_cell(record: StudyRecord, name: str, seed: int) -> RecordedCell:
    """The finished cell of this name, or one that the seed draws; teachers are not among them."""
    cells = {}
    for row in record.rows:
        if row.kind == "teacher":
            continue
        for row_seed in row.scores:
            cell = RecordedCell(row, row_seed)
            cells[str(cell)] = cell
    if not name:
        names = [*cells] or ["of a finished run"]
        number = np.random.default_rng(seed).integers(len(names))
        name = names[number]
    check_known("the cell", name, cells)
    return cells[name]


def _check_device(cell: RecordedCell, record: StudyRecord) -> None:
    """Refuse a cell that was trained on a GPU where there is none, and the other way round."""
    on_gpu = bool(record.environment_of(cell.key).get("gpus"))
    if cell.row.kind != "row" or on_gpu == torch.cuda.is_available():
        return
    trained, where = "on a GPU", "with a GPU"
    if not on_gpu:
        trained = "without a GPU"
        where = "without a GPU, or with CUDA_VISIBLE_DEVICES set to nothing"
    raise UserError(
        f"{cell} was trained {trained}, where dropout draws other numbers",
        f"verify it on a machine {where}, or name a cell that was not trained, with --cell",
        code="other-device",
    )


def _run_again(file: str | Path, cell: RecordedCell, options: Options) -> CellResult:
    """Run the cell with all that it needs."""
    plan = plan_study(file, **options)
    planned = plan.cell(cell.row.label, cell.seed)
    _keep_needed(plan, planned)
    console = options.get("console") or plain_console()
    failed = run_plan(plan, options.get("workers", 1), console)
    result = planned.result()
    if result is None:
        raise UserError(
            f"{cell} failed: {failed[planned.key]}",
            "give the options that the study was run with",
            code="cell-failed",
        )
    return result


def _keep_needed(plan: StudyPlan, last: Cell) -> None:
    """Take all cells out of the plan but one and those that it needs."""
    needed = {last.key}
    for cell in reversed(plan.cells.values()):  # a cell comes after those that it needs
        if cell.key in needed:
            needed.update(cell.needs)
    for key in plan.cells.keys() - needed:
        del plan.cells[key]


def compared(cell: RecordedCell, record: StudyRecord, result: CellResult) -> Verification:
    """A recorded cell beside the result of the same cell today."""
    machine = record.environment_of(cell.key)
    machine_now = _in_terms_of(result.environment, machine)
    changed = differences(record.settings_of(cell.key), without_paths(result.settings))
    if not changed and result.key != cell.key:
        changed = ["other text, pairs, model files or tasks"]
    changed += differences(machine, machine_now)

    # The processor's kernels decide the last digits too.
    within = PRINTED
    if PROCESSOR not in machine:
        changed.append("perhaps another processor, which the record does not name")
        within *= ELSEWHERE
    elif _deciding(machine_now) != _deciding(machine):
        within *= ELSEWHERE
    scores = {column: score for column, score in cell.scores.items() if column not in COST}
    return Verification(str(cell), scores, result.scores, within, changed)


def _in_terms_of(machine: Record, record: Record) -> Record:
    """What a record names of a machine: an older one names fewer things and packages."""
    values = {name: machine.get(name) for name in record}
    versions = machine["packages"]
    values["packages"] = {name: versions.get(name) for name in record["packages"]}
    return values


def _deciding(machine: Record) -> list[Any]:
    """What decides the last digits. isotrope's own version is no excuse."""
    values = {**machine, "packages": {**machine["packages"], "isotrope": ""}}
    return [values.get(name) for name in DECIDES]
