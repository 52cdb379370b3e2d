"""What a study leaves, as typed records: ``result.json`` of a cell, and ``study.json``.

Old files are read too: what they do not name has its default here.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict

from isotrope.store.files import Record, read_record, write_json
from isotrope.study.statistics import PairedTest

FILE = "study.json"
Scores = dict[str, float]  # by column of the table

RowKind = Literal["row", "untrained", "teacher"]
ClaimAnswer = Literal["holds", "does not hold", "open"]


class _Record(BaseModel):
    """A part of a file. Keys of other versions are left out."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        allow_inf_nan=True,
        from_attributes=True,
    )

    def as_json(self) -> Record:
        """As JSON has it."""
        return self.model_dump(mode="json")


class Measurement(_Record):
    """What was measured of a cell's model."""

    scores: Scores
    data: dict[str, Record] = {}  # "corpus" and "tests": checksums of what it read
    seconds: dict[str, float] = {}
    selection: Record = {}  # what chose the checkpoint
    projection: list[list[float]] = []  # (n, 2)
    in_batch: list[int] = []  # counts of cosines, by bins


class CellResult(Measurement):
    """``result.json`` of a finished cell."""

    label: str
    key: str
    preset: str
    seed: int
    settings: Record  # the resolved preset
    environment: Record  # versions and machine
    kept_model: bool = False


@dataclass(frozen=True, slots=True)
class Mean:
    """A row's mean over n seeds, and their standard deviation (None for one seed)."""

    value: float
    sd: float | None
    n: int


class Published(_Record):
    """Printed numbers of a method."""

    published: Scores = {}
    published_sd: Scores = {}
    source: str = ""
    differs: str = ""  # what is different behind these numbers


class StudyRow(Published):
    """A row of the table, or a teacher: its cells and their scores."""

    label: str
    kind: RowKind
    base: str  # the row in the study's file
    at: Record = {}  # swept values
    cells: dict[int, str] = {}  # seed -> key
    scores: dict[int, Scores] = {}  # by seed, of finished cells
    failed: dict[int, str] = {}  # seed -> why

    def column_scores(self, column: str) -> dict[int, float]:
        """Seed -> score."""
        by_seed = self.scores.items()
        return {seed: scores[column] for seed, scores in by_seed if column in scores}

    def mean(self, column: str) -> Mean | None:
        """The mean over seeds; None if the column is not measured."""
        values = [*self.column_scores(column).values()]
        if not values:
            return None
        count = len(values)
        sd = float(np.std(values, ddof=1)) if count > 1 else None
        return Mean(float(np.mean(values)), sd, count)


class PairTest(_Record):
    """A test over the judging pairs. Records of the first version had 1,000 resamples."""

    low: float
    high: float
    p: float
    p_holm: float | None = None
    resamples: int = 1000


class RowComparison(_Record):
    """The difference ``row`` − ``than`` in a column, and what tests say of it."""

    row: str
    than: str
    column: str
    same: bool = False  # both sides are the same cells
    seeds: PairedTest | None = None  # None: not measured
    pairs: PairTest | None = None

    @property
    def sides(self) -> tuple[str, str]:
        """The names of both rows."""
        return self.row, self.than

    @property
    def p_values(self) -> tuple[float | None, float | None, float | None]:
        """Over seeds, over seeds against the margin, and over pairs; None: not tested."""
        seeds = None if self.same else self.seeds
        pairs = None if self.same else self.pairs
        return (
            seeds.p if seeds else None,
            seeds.p_margin if seeds else None,
            pairs.p if pairs else None,
        )

    def corrected(self, p: float | None, p_margin: float | None, p_pairs: float | None) -> Self:
        """The comparison with `p_values` that are corrected for the number of comparisons."""
        seeds = self.seeds
        if seeds:
            seeds = replace(seeds, p_holm=p, p_margin_holm=p_margin)
        pairs = self.pairs
        if pairs:
            pairs = pairs.model_copy(update={"p_holm": p_pairs})
        return self.model_copy(update={"seeds": seeds, "pairs": pairs})


class Difference(RowComparison):
    """A row against the baseline."""

    # points -> the seeds that a true difference of so many needs; None: more than 1,000
    needed: dict[str, int | None] | None = None


class AnsweredClaim(RowComparison):
    """What a paper says about two rows, and whether it holds here."""

    claim: str
    text: str
    source: str = ""
    share: float | None = None
    spread: bool = False
    margin: float = 0.0
    published: float | None = None  # the printed difference
    answer: ClaimAnswer = "open"
    why: str = ""


class Scale(_Record):
    """How large the study is."""

    sentences: int | None
    seeds: int
    test: str
    backbones: list[str]
    corpora: list[str]  # checksums
    cells: int
    finished: int


class Spread(_Record):
    """The baseline's standard deviation over n seeds."""

    sd: float
    n: int


class CellSummary(_Record):
    """A cell without its scores. What many cells share is stored once, in `RecordedCells`."""

    preset: str
    seed: int
    seconds: dict[str, float]
    settings: str  # checksum
    data: int  # place in the list
    environment: int  # place in the list


class RecordedCells(_Record):
    """All finished cells, by their keys."""

    cells: dict[str, CellSummary]
    settings: dict[str, Record]  # checksum -> resolved preset
    data: list[Record]
    environments: list[Record]

    def environment_of(self, key: str) -> Record:
        """Versions and machine of a cell."""
        return self.environments[self.cells[key].environment]

    def settings_of(self, key: str) -> Record:
        """The resolved preset of a cell."""
        return self.settings[self.cells[key].settings]


class StudyRecord(RecordedCells):
    """``study.json``: everything that the pages show. Its tests can be computed again from it."""

    name: str
    title: str
    source: str = ""
    note: str = ""
    scale: Scale
    columns: list[str]
    column: str  # the one that is tested
    rows: list[StudyRow]
    references: dict[str, Published] = {}
    baseline: str
    differences: list[Difference] = []
    claims: list[AnsweredClaim] = []
    spread: Spread | None = None
    figures: dict[str, str] = {}  # title -> file beside the pages

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The record of a study that has run in this folder.

        UserError if there is none, or it is damaged.
        """
        keys = {"rows": list, "cells": dict}
        remedy = "name the --output of a study that has run"
        return cls.model_validate(read_record(folder / FILE, keys, remedy))

    def write(self, folder: Path) -> None:
        """Write ``study.json``."""
        write_json(folder / FILE, self.as_json())

    def row(self, name: str) -> StudyRow:
        """The row of a name, or else the teacher; a row that was not run has no cells."""
        for row in self.rows:
            if row.label == name:
                return row
        return StudyRow(label=name, kind="row", base=name)
