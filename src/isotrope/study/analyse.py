"""What a study found: scores by row and seed, tested differences, answered claims. The record is
plain JSON.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np

from isotrope.evaluation.significance import judged
from isotrope.store.files import Record
from isotrope.study.cell import cells_summary, without_paths
from isotrope.study.columns import COST, KNOWN, LOWER_IS_BETTER, SHAPE, UNSHOWN, column_of
from isotrope.study.plan import StudyPlan
from isotrope.study.rows import PlannedRow
from isotrope.study.spec import Claim, Reference, RowSettings, Spec
from isotrope.study.statistics import (
    ALPHA,
    FEWEST_SEEDS,
    PairedTest,
    holm,
    paired_test,
    seeds_needed,
    spread_test,
)
from isotrope.types import Vector

OWN_DOCUMENTS = (
    "A row with documents of its own reads all of them, unless it has a number of sentences."
)
MARGIN = 0.5  # points: less is no advantage, unless a claim says otherwise
DIFFERENCES = (0.5, 1.0)  # points, for which the table says how many seeds they need
NOT_RUN: Record = {"kind": "row", "cells": {}, "scores": {}}


def study_record(plan: StudyPlan, failed: Mapping[str, str] | None = None) -> Record:
    """Everything that the study's pages show, from its finished cells; ``failed`` is key -> why.

    A row has one score for each seed. A teacher or an untrained backbone is one run; it is compared
    with every seed.
    """
    spec = plan.spec
    finished = _finished(plan)
    rows = _rows(plan, finished, failed or {})
    columns = _shown_columns(spec, rows)
    column = "Avg." if "Avg." in columns else next(iter(columns), "Avg.")
    baseline = _baseline(plan)
    differences: list[Record] = [
        {"row": label, "than": baseline, "column": column}
        for label in _compared_with(baseline, plan)
    ]
    claims = [_claim_record(plan, label, claim) for label, claim in spec.claims.items()]
    draws = CellDraws(plan)
    for comparison in differences + claims:
        comparison["pairs"] = _over_pairs(draws, rows, comparison)
    record: Record = {
        **spec.model_dump(include={"name", "title", "source"}),
        "note": _note(spec),
        "scale": _scale(plan, finished),
        "columns": columns,
        "column": column,
        "rows": rows,
        "references": {
            label: row.model_dump(include={*Reference.model_fields})
            for label, row in spec.reference.items()
        },
        "baseline": baseline,
        "differences": differences,
        "claims": claims,
        **cells_summary(finished),
    }
    return recomputed(record)


def _finished(plan: StudyPlan) -> dict[str, Record]:
    """Key -> record of each finished cell."""
    records = {key: cell.record() for key, cell in plan.cells.items()}
    return {key: record for key, record in records.items() if record}


def _rows(
    plan: StudyPlan, finished: Mapping[str, Record], failed: Mapping[str, str]
) -> list[Record]:
    """The rows and the teachers, with the scores of each seed, or why it failed."""
    rows: list[Record] = []
    for label, entry in plan.entries.items():
        kind = "row" if entry.row.train else "untrained"
        rows.append(_row_record(kind, entry, plan.rows[label], finished, failed))
    for name, key in plan.models.items():
        entry = PlannedRow(name, RowSettings(), name)
        keys = {plan.cells[key].seed: key}
        rows.append(_row_record("teacher", entry, keys, finished, failed))
    return rows


def _row_record(
    kind: str,
    entry: PlannedRow,
    keys: Mapping[int, str],
    finished: Mapping[str, Record],
    failed: Mapping[str, str],
) -> Record:
    printed = RowSettings() if entry.at else entry.row  # printed numbers are not of swept values
    return {
        "label": entry.label,
        "kind": kind,
        "base": entry.base,
        "at": dict(entry.at),
        "cells": {str(seed): key for seed, key in keys.items()},
        "scores": {
            str(seed): finished[key]["scores"] for seed, key in keys.items() if key in finished
        },
        **printed.model_dump(include={"published", "published_sd"}),
        "source": entry.row.source,
        "differs": entry.row.differs,
        "failed": {str(seed): failed[key] for seed, key in keys.items() if key in failed},
    }


def _shown_columns(spec: Spec, rows: Sequence[Record]) -> list[str]:
    """The columns of the table: those of the user's own pairs, then the papers' in their order."""
    measured = {column for row in rows for scores in row["scores"].values() for column in scores}
    published = {
        column
        for row in (*spec.rows.values(), *spec.reference.values())
        for column in row.published
    }
    seen = measured | published
    shown = seen & set(spec.run.tasks) if spec.run.tasks else seen - set(UNSHOWN)
    return [*sorted(shown - set(KNOWN)), *(column for column in KNOWN if column in shown)]


def _baseline(plan: StudyPlan) -> str:
    """The row that the file names, if it is run; else the first that is trained; else the first."""
    name = plan.spec.run.baseline
    named = [label for label, entry in plan.entries.items() if name in (label, entry.base)]
    trained = [label for label, entry in plan.entries.items() if entry.row.train]
    return [*named, *trained, *plan.entries][0]


def _compared_with(baseline: str, plan: StudyPlan) -> list[str]:
    """The rows that are compared with the baseline: trained ones, and those of its own model."""

    def base_model(label: str) -> Any:
        return plan.cells[next(iter(plan.rows[label].values()))].settings["base"]

    return [
        label
        for label, entry in plan.entries.items()
        if label != baseline and (entry.row.train or base_model(label) == base_model(baseline))
    ]


def _note(spec: Spec) -> str:
    notes = [spec.note]
    if any(row.documents for row in spec.rows.values()):
        notes.append(OWN_DOCUMENTS)
    return " ".join(filter(None, notes))


def _scale(plan: StudyPlan, finished: Mapping[str, Record]) -> Record:
    backbones = {without_paths(str(cell.settings["base"])) for cell in plan.cells.values()}
    corpora = {
        record["data"]["corpus"]["key"]
        for record in finished.values()
        if "corpus" in record["data"]
    }
    return {
        **plan.spec.run.model_dump(include={"sentences", "seeds", "test"}),
        "backbones": sorted(backbones),
        "corpora": sorted(corpora),
        "cells": len(plan.cells),
        "finished": len(finished),
    }


def recomputed(record: Record) -> Record:
    """A study's record with its tests computed from its scores: differences, spread, and the
    answers to its claims.

    The tests over pairs stay as they are: they need every cell's resamples. Records of earlier
    versions had 1,000.
    """
    record = deepcopy(record)
    rows = record["rows"]
    for comparison in record["differences"] + record["claims"]:
        scores = _paired_scores(rows, comparison)
        comparison["same"] = scores.same_cells
        tested = _test_over_seeds(scores, comparison)
        comparison["seeds"] = asdict(tested) if tested else None
        if comparison["pairs"]:
            comparison["pairs"].setdefault("resamples", 1000)
    for difference in record["differences"]:
        difference["needed"] = _needed_seeds(rows, difference)
    _correct(record["differences"])
    _correct(record["claims"])
    for claim in record["claims"]:
        claim["answer"], claim["why"] = claim_answer(claim)
    spread = _spread(_row_named(rows, record["baseline"]), record["column"])
    return record | {"spread": spread}


def _test_over_seeds(scores: "PairedScores", comparison: Record) -> PairedTest | None:
    """The test that a difference or a claim asks for; None if nothing is measured."""
    if not scores.first:
        return None
    share = comparison.get("share") or 1
    first = [*scores.first.values()]
    second = [share * score for score in scores.second.values()]
    if comparison.get("spread", False):
        return spread_test(first, second)
    return paired_test(first, second, comparison.get("margin", 0))


def _needed_seeds(rows: Sequence[Record], difference: Record) -> dict[str, int | None] | None:
    """The seeds that true differences of 0.5 and 1 need, if rows are independent; None if a row has
    fewer than two seeds.
    """
    variance = 0.0
    for side in ("row", "than"):
        row = _row_named(rows, difference[side])
        if row["kind"] == "row":
            spread = _spread(row, difference["column"])
            if spread is None:
                return None
            variance = float(np.hypot(variance, spread["sd"]))
    return {str(points): seeds_needed(points, variance) for points in DIFFERENCES}


def _spread(row: Record, column: str) -> Record | None:
    """A row's standard deviation over its seeds; None if it has fewer than two."""
    values = [scores[column] for scores in row["scores"].values() if column in scores]
    if len(values) < 2:
        return None
    return {"sd": float(np.std(values, ddof=1)), "n": len(values)}


class CellDraws:
    """The bootstrap draws of a plan's cells, each read once."""

    def __init__(self, plan: StudyPlan) -> None:
        self.plan = plan
        self.draws = cache(self._draws)

    def _draws(self, key: str, column: str) -> Vector | None:
        """A cell's draws of a column: (R,) in points, or None if it has no pairs."""
        of_tasks = [
            values
            for task, values in self.plan.cells[key].draws().items()
            if column in ("Avg.", column_of(task))
        ]
        return 100 * np.mean(of_tasks, axis=0) if of_tasks else None

    def mean(self, keys: Iterable[str], column: str) -> Vector | None:
        """The mean draws over cells (R,); None if one of them has no pairs."""
        draws = [self.draws(key, column) for key in keys]
        present = [values for values in draws if values is not None]
        if len(present) < len(draws):
            return None
        return np.asarray(np.mean(present, axis=0))


def _over_pairs(draws: CellDraws, rows: Sequence[Record], comparison: Record) -> Record | None:
    """Interval and p of a difference over pairs, from the mean draws over its cells; None if there
    are no pairs.
    """
    scores = _paired_scores(rows, comparison)
    # what is compared there are not two means
    if not scores.first or comparison.get("share") or comparison.get("spread"):
        return None
    means = []
    for side in ("row", "than"):
        keys = _cells_of(_row_named(rows, comparison[side]), scores.first)
        mean = draws.mean(keys, comparison["column"])
        if mean is None:
            return None
        means.append(mean)
    # interval and p come from the draws only; the scores are in the record already
    tested = judged(0.0, 0.0, means[0] - means[1])
    return {"low": tested.low, "high": tested.high, "p": tested.p, "resamples": tested.resamples}


def _row_named(rows: Sequence[Record], name: str) -> Record:
    """The row of a name, or else the teacher; a row that is not run has no cells."""
    return next((row for row in rows if row["label"] == name), NOT_RUN)


@dataclass(frozen=True, slots=True)
class PairedScores:
    """Seed -> score of either side of a difference, for the seeds of both."""

    first: dict[str, float]
    second: dict[str, float]
    same_cells: bool  # whether both sides are the same cells


def _paired_scores(rows: Sequence[Record], comparison: Record) -> PairedScores:
    row, than = (_row_named(rows, comparison[side]) for side in ("row", "than"))
    first = _column_scores(row, comparison["column"])
    second = _column_scores(than, comparison["column"])
    if first and second:  # one model is compared with every seed
        if row["kind"] != "row":
            first = dict.fromkeys(second, *first.values())
        elif than["kind"] != "row":
            second = dict.fromkeys(first, *second.values())
    seeds = sorted(first.keys() & second.keys(), key=int)
    same = bool(seeds) and _cells_of(row, seeds) == _cells_of(than, seeds)
    return PairedScores(
        {seed: first[seed] for seed in seeds}, {seed: second[seed] for seed in seeds}, same
    )


def _column_scores(row: Record, column: str) -> dict[str, float]:
    return {seed: scores[column] for seed, scores in row["scores"].items() if column in scores}


def _cells_of(row: Record, seeds: Iterable[str]) -> list[str]:
    """The row's cells of these seeds. A teacher or an untrained row has one cell."""
    if row["kind"] != "row":
        return [*row["cells"].values()]
    return [row["cells"][seed] for seed in seeds if seed in row["cells"]]


def _correct(comparisons: list[Record]) -> None:
    """Correct the p values over seeds, and those over pairs, for their number; equal cells do not
    count.
    """
    for over, name in (("seeds", "p"), ("seeds", "p_margin"), ("pairs", "p")):
        tests = [comparison[over] for comparison in comparisons]
        values = [
            test[name] if test and not comparison["same"] else None
            for test, comparison in zip(tests, comparisons, strict=True)
        ]
        for test, corrected in zip(tests, holm(values), strict=True):
            if test:
                test[f"{name}_holm"] = corrected


def _claim_record(plan: StudyPlan, label: str, claim: Claim) -> Record:
    """A paper's claim as the difference ``row`` − ``than``. The order is such that a gain is
    positive.
    """
    row, than = claim.better, claim.than
    if claim.column in LOWER_IS_BETTER and not claim.spread:
        row, than = than, row
    return {
        **claim.model_dump(include={"text", "source", "column", "share", "spread"}),
        "claim": label,
        "row": _entry_label(plan, row),
        "than": _entry_label(plan, than),
        "margin": _margin(claim),
        "published": _published_difference(plan.spec, claim, row, than),
    }


def _entry_label(plan: StudyPlan, name: str) -> str:
    """The entry that a name of the file means: of a swept row the first. Teachers keep theirs."""
    if name in plan.entries:
        return name
    return next((label for label, entry in plan.entries.items() if entry.base == name), name)


def _margin(claim: Claim) -> float:
    """What a gain has to exceed: half a point, or 0 for what is not in points."""
    if claim.margin is not None:
        return claim.margin
    in_points = claim.column not in (*SHAPE, *COST) and not claim.share and not claim.spread
    return MARGIN if in_points else 0.0


def _published_difference(spec: Spec, claim: Claim, row: str, than: str) -> float | None:
    """The difference of the printed numbers; None if one is not printed."""
    first, second = (spec.rows.get(side, Reference()) for side in (row, than))
    if claim.spread:
        narrow = first.published_sd.get(claim.column)
        wide = second.published_sd.get(claim.column)
        # printed digits may hide a small one
        return float(np.log(wide / narrow)) if narrow and wide else None
    higher, lower = first.published.get(claim.column), second.published.get(claim.column)
    if higher is None or lower is None:
        return None
    return higher - (claim.share or 1) * lower


def claim_answer(claim: Record) -> tuple[str, str]:
    """A claim *holds* if the difference is significantly above 0. It *does not hold* if it is
    significantly below the margin. Both are after Holm's correction over the study's claims.
    Otherwise the claim is *open*, which says why.

    Each answer takes one side of a two-sided test at 5 %, so both together err with at most 5 % in
    the whole study.
    """
    seeds = claim["seeds"]
    if seeds is None:
        return "open", "not measured here"
    if claim["same"]:
        return "open", "the two rows have equal settings at this scale"
    count = seeds["n"]
    if seeds["p"] is None and count < FEWEST_SEEDS:
        return "open", f"{count} seed(s): at least 3 are needed"
    if seeds["p"] is None:
        return "open", "one of the two has no spread over seeds"
    if seeds["p_holm"] <= ALPHA and seeds["mean"] > 0:
        return "holds", ""
    if seeds["p_margin_holm"] <= ALPHA and seeds["mean"] < claim["margin"]:
        return "does not hold", ""
    detected = f"{count} seeds show {seeds['detectable']:.2f} or more if one claim is tested"
    return "open", f"{detected}, and only larger differences if many are"
