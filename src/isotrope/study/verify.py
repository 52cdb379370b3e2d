"""Does today's code give what a study's record says? One recorded cell is run again and compared."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch

from isotrope.console.plain import plain_console
from isotrope.errors import UserError, check_known
from isotrope.store.job import differences
from isotrope.study.cell import without_paths
from isotrope.study.columns import COST, SHAPE, shown
from isotrope.study.execute import run_plan
from isotrope.study.plan import StudyPlan
from isotrope.study.record import CellResult, StudyRecord, StudyRow
from isotrope.study.study import Options, paths_of, spec_with

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
    def beyond(self) -> list[str]:
        """The columns that differ by more, or are not measured now."""
        return [column for column in self.then if not self._is_equal(column)]

    def _is_equal(self, column: str) -> bool:
        within = 0.1 * self.within if column in SHAPE else self.within
        return self._change(column) <= within

    def _change(self, column: str) -> float:
        """How far apart the two scores are; NaN if the column is not measured now."""
        now = self.now.get(column, np.nan)
        return abs(now - self.then[column])

    def __str__(self) -> str:
        """One line with the answer, then one for what has changed since."""
        if self.beyond:
            changes = [
                f"{column} {shown(column, self.then[column])} → "
                f"{shown(column, self.now.get(column, np.nan))}"
                for column in self.beyond
            ]
            answer = (
                f"differs from its record by more than {self.within:g} points: {', '.join(changes)}"
            )
        else:
            largest = max((self._change(column) for column in self.then), default=0.0)
            answer = (
                f"equal to its record within {self.within:g} points, at most {largest:.3f} apart"
            )
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
    def scores(self) -> dict[str, float]:
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
            "rows": [recorded.row.base],
        }
        result = _run_again(file, recorded, options)
    return compared(recorded, record, result)


def _recorded_cell(record: StudyRecord, name: str, seed: int) -> RecordedCell:
    """The finished cell of this name, or one that the seed draws; teachers are not among them."""
    cells: dict[str, RecordedCell] = {}
    for row in record.rows:
        if row.kind != "teacher":
            for number in row.scores:
                cell = RecordedCell(row, number)
                cells[str(cell)] = cell
    if not name:
        names = [*cells] or ["of a finished run"]
        name = names[np.random.default_rng(seed).integers(len(names))]
    check_known("the cell", name, cells)
    return cells[name]


def _check_device(cell: RecordedCell, record: StudyRecord) -> None:
    """Refuse a cell that was trained on a GPU where there is none, and the other way round."""
    on_gpu = bool(record.environment_of(cell.key).get("gpus"))
    if cell.row.kind != "row" or on_gpu == torch.cuda.is_available():
        return
    trained = "on a GPU" if on_gpu else "without a GPU"
    where = "with a GPU"
    if not on_gpu:
        where = "without a GPU, or with CUDA_VISIBLE_DEVICES set to nothing"
    raise UserError(
        f"{cell} was trained {trained}, where dropout draws other numbers",
        f"verify it on a machine {where}, or name a cell that was not trained, with --cell",
        code="other-device",
    )


def _run_again(file: str | Path, cell: RecordedCell, options: Options) -> CellResult:
    """Run the cell with all that it needs."""
    label = cell.row.label
    plan = StudyPlan(
        spec_with(file, options),
        paths_of(options),
        [label],
        options.get("overrides", ()),
    )
    key = plan.rows[label][cell.seed]
    _keep_needed(plan, key)
    console = options.get("console") or plain_console()
    failed = run_plan(plan, options.get("workers", 1), console)
    result = plan.cells[key].result()
    if result is None:
        raise UserError(
            f"{cell} failed: {failed[key]}",
            "give the options that the study was run with",
            code="cell-failed",
        )
    return result


def _keep_needed(plan: StudyPlan, key: str) -> None:
    """Take all cells out of the plan but one and those that it needs."""
    needed = {key}
    for cell in reversed(plan.cells.values()):  # a cell comes after those that it needs
        if cell.key in needed:
            needed |= {*cell.needs}
    plan.cells = {key: cell for key, cell in plan.cells.items() if key in needed}


def compared(cell: RecordedCell, record: StudyRecord, result: CellResult) -> Verification:
    """A recorded cell beside the result of the same cell today."""
    machine = record.environment_of(cell.key)
    machine_now = result.environment
    same_machine = _is_same(machine_now, machine)

    changed = differences(record.settings_of(cell.key), without_paths(result.settings))
    if not changed and result.key != cell.key:
        changed = ["other text, pairs, model files or tasks"]
    changed += differences(machine, _in_terms_of(machine_now, machine))
    if PROCESSOR not in machine:
        changed.append("perhaps another processor, which the record does not name")
    return Verification(
        str(cell),
        {column: score for column, score in cell.scores.items() if column not in COST},
        result.scores,
        PRINTED if same_machine else PRINTED * ELSEWHERE,
        changed,
    )


def _in_terms_of(machine: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """What a record names of a machine: an older one names fewer things and packages."""
    versions = machine["packages"]
    values = {name: machine.get(name) for name in record}
    values["packages"] = {name: versions.get(name) for name in record["packages"]}
    return values


def _is_same(machine: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Whether a machine gives the last digits of a record. The processor's kernels decide them too,
    and the oldest records do not name these.
    """
    return PROCESSOR in record and _deciding(machine, record) == _deciding(record, record)


def _deciding(machine: Mapping[str, Any], record: Mapping[str, Any]) -> list[Any]:
    values = _in_terms_of(machine, record)
    values["packages"]["isotrope"] = ""  # isotrope's own version is no excuse
    return [values.get(name) for name in DECIDES]
