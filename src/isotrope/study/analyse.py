"""What a study found: scores by row and seed, tested differences, answered claims. The record is
plain JSON.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np

from isotrope.evaluation.significance import judged
from isotrope.store.files import Record
from isotrope.study.cell import cells_summary, without_paths
from isotrope.study.columns import COST, KNOWN, LOWER_IS_BETTER, SHAPE, UNSHOWN, column_of
from isotrope.study.plan import StudyPlan
from isotrope.study.rows import PlannedRow
from isotrope.study.spec import Claim, Reference, RowSettings
from isotrope.study.statistics import (
    ALPHA,
    FEWEST_SEEDS,
    holm,
    paired_test,
    seeds_needed,
    spread_test,
)

OWN = "A row with documents of its own reads all of them, unless it has a number of sentences."


def study_record(plan: StudyPlan, failed: Mapping[str, str] | None = None) -> Record:
    """Everything that the study's pages show, from its finished cells; ``failed`` is key -> why.

    A row has one score for each seed. A teacher or an untrained backbone is one run; it is compared
    with every seed.
    """
    spec, lost = plan.spec, failed or {}
    results = {key: found for key, cell in plan.cells.items() if (found := cell.record())}

    def measured(kind: str, entry: PlannedRow, keys: Mapping[int, str]) -> Record:
        """A row or a teacher: the cell of each seed, with its scores or why it failed."""
        printed = RowSettings() if entry.at else entry.row
        return {
            "label": entry.label,
            "kind": kind,
            "base": entry.base,
            "at": dict(entry.at),
            "cells": {str(seed): key for seed, key in keys.items()},
            "scores": {
                str(seed): results[key]["scores"] for seed, key in keys.items() if key in results
            },
            **printed.model_dump(include={"published", "published_sd"}),
            "source": entry.row.source,
            "failed": {str(seed): lost[key] for seed, key in keys.items() if key in lost},
        }

    entries = plan.entries
    rows = [
        measured("row" if one.row.train else "untrained", one, plan.rows[label])
        for label, one in entries.items()
    ]
    for name, key in plan.models.items():
        rows.append(
            measured("teacher", PlannedRow(name, RowSettings(), name), {plan.cells[key].seed: key})
        )
    seen = {column for row in rows for scores in row["scores"].values() for column in scores}
    seen |= {
        column
        for row in (*spec.rows.values(), *spec.reference.values())
        for column in row.published
    }
    shown = seen & set(spec.run.tasks) if spec.run.tasks else seen - set(UNSHOWN)
    # those of the user's own pairs, then the papers' in their order
    columns = [*sorted(shown - set(KNOWN)), *(column for column in KNOWN if column in shown)]
    trained = [label for label, entry in entries.items() if entry.row.train]
    named = [label for label, entry in entries.items() if spec.run.baseline in (label, entry.base)]
    baseline = (named or trained or [*entries])[0]  # the named row, if it is run
    column = "Avg." if "Avg." in columns else next(iter(columns), "Avg.")
    begun = {
        label: plan.cells[next(iter(keys.values()))].settings["base"]
        for label, keys in plan.rows.items()
    }
    compared = [label for label in entries if label in trained or begun[label] == begun[baseline]]
    record: Record = {
        **spec.model_dump(include={"name", "title", "source"}),
        "note": " ".join(
            filter(
                None, [spec.note, OWN if any(row.documents for row in spec.rows.values()) else ""]
            )
        ),
        "scale": {
            **spec.run.model_dump(include={"sentences", "seeds", "test"}),
            "backbones": sorted(
                {without_paths(str(cell.settings["base"])) for cell in plan.cells.values()}
            ),
            "corpora": sorted(
                {r["data"]["corpus"]["key"] for r in results.values() if "corpus" in r["data"]}
            ),
            "cells": len(plan.cells),
            "finished": len(results),
        },
        "columns": columns,
        "column": column,
        "rows": rows,
        "references": {
            k: row.model_dump(include={*Reference.model_fields})
            for k, row in spec.reference.items()
        },
        "baseline": baseline,
        "differences": [
            {"row": label, "than": baseline, "column": column}
            for label in compared
            if label != baseline
        ],
        "claims": [_asked(plan, label, claim) for label, claim in spec.claims.items()],
        **cells_summary(results),
    }

    @cache
    def drawn(key: str, column: str) -> Any:
        """A cell's draws of a column: (R,) in points, or None if it has no pairs."""
        found = [
            values
            for task, values in plan.cells[key].draws().items()
            if column in ("Avg.", column_of(task))
        ]
        return 100 * np.mean(found, axis=0) if found else None

    for one in record["differences"] + record["claims"]:
        one["pairs"] = _over_pairs(drawn, rows, one)
    return recomputed(record)


def recomputed(record: Record) -> Record:
    """A study's record with its tests computed from its scores: differences, spread, and the
    answers to its claims.

    The tests over pairs stay as they are: they need every cell's resamples. Records of earlier
    versions had 1,000.
    """
    record = deepcopy(record)
    for one in record["differences"] + record["claims"]:
        left, right, one["same"] = _paired(record["rows"], one)
        first, second = (
            [*left.values()],
            [(one.get("share") or 1) * value for value in right.values()],
        )
        tested = None
        if first:
            spread = one.get("spread", False)
            tested = (
                spread_test(first, second)
                if spread
                else paired_test(first, second, one.get("margin", 0))
            )
        one["seeds"] = tested and asdict(tested)
        if one["pairs"]:
            one["pairs"].setdefault("resamples", 1000)
    for one in record["differences"]:
        rows = [_named(record["rows"], one[side]) for side in ("row", "than")]
        row, than = (
            _spread(row, one["column"]) if row["kind"] == "row" else {"sd": 0.0} for row in rows
        )
        one["needed"] = None
        # the seeds that true differences of 0.5 and 1 need, if rows are independent
        if row and than:
            sd = float(np.hypot(row["sd"], than["sd"]))
            one["needed"] = {str(d): seeds_needed(d, sd) for d in (0.5, 1.0)}
    _correct(record["differences"])
    _correct(record["claims"])
    for claim in record["claims"]:
        claim["answer"], claim["why"] = claim_answer(claim)
    return record | {
        "spread": _spread(_named(record["rows"], record["baseline"]), record["column"])
    }


def _spread(row: Record, column: str) -> Record | None:
    """A row's standard deviation over its seeds; None if it has fewer than two."""
    values = [scores[column] for scores in row["scores"].values() if column in scores]
    return {"sd": float(np.std(values, ddof=1)), "n": len(values)} if len(values) > 1 else None


def _over_pairs(
    drawn: Callable[[str, str], Any], rows: Sequence[Record], one: Record
) -> Record | None:
    """Interval and p of a difference over pairs, from the mean draws over its cells; None if there
    are no pairs.
    """
    left, right, _ = _paired(rows, one)
    # what is compared there are not two means
    if not left or one.get("share") or one.get("spread"):
        return None
    cells = [
        _cells(_named(rows, name), seeds)
        for name, seeds in ((one["row"], left), (one["than"], right))
    ]
    first, second = ([drawn(key, one["column"]) for key in keys] for keys in cells)
    if any(of is None for of in first + second):
        return None
    # interval and p come from the draws only; the scores are in the record already
    found = judged(0.0, 0.0, np.mean(first, axis=0) - np.mean(second, axis=0))
    return {"low": found.low, "high": found.high, "p": found.p, "resamples": found.resamples}


def _named(rows: Sequence[Record], name: str) -> Record:
    """The row of a name, or else the teacher; a row that is not run has no cells."""
    return next(
        (row for row in rows if row["label"] == name), {"kind": "row", "cells": {}, "scores": {}}
    )


def _paired(rows: Sequence[Record], one: Record) -> tuple[dict[str, float], dict[str, float], bool]:
    """Seed -> score of either side of a difference, for the seeds of both; and whether their cells
    are the same.
    """
    a, b = (_named(rows, one[side]) for side in ("row", "than"))
    left, right = (
        {s: of[one["column"]] for s, of in row["scores"].items() if one["column"] in of}
        for row in (a, b)
    )
    if a["kind"] != "row" and left and right:  # one run is compared with every seed
        left = dict.fromkeys(right, *left.values())
    elif b["kind"] != "row" and left and right:
        right = dict.fromkeys(left, *right.values())
    common = sorted(left.keys() & right.keys(), key=int)
    same = bool(common) and _cells(a, common) == _cells(b, common)
    return {seed: left[seed] for seed in common}, {seed: right[seed] for seed in common}, same


def _cells(row: Record, seeds: Iterable[str]) -> list[str]:
    """The row's cells of these seeds. A teacher or an untrained row has one cell."""
    return (
        [row["cells"][s] for s in seeds if s in row["cells"]]
        if row["kind"] == "row"
        else [*row["cells"].values()]
    )


def _correct(records: list[Record]) -> None:
    """Correct the p values over seeds, and those over pairs, for their number; equal cells do not
    count.
    """
    for kind, name in (("seeds", "p"), ("seeds", "p_margin"), ("pairs", "p")):
        found = holm(
            [
                record[kind][name] if record[kind] and not record["same"] else None
                for record in records
            ]
        )
        for record, value in zip(records, found, strict=True):
            if record[kind]:
                record[kind][f"{name}_holm"] = value


def _asked(plan: StudyPlan, label: str, claim: Claim) -> Record:
    """A paper's claim as the difference ``row`` − ``than``. The order is such that a gain is
    positive.
    """
    # the first of a sweep
    names = {entry.base: label for label, entry in reversed(plan.entries.items())}
    names |= {label: label for label in plan.entries}
    gain, points = claim.column not in LOWER_IS_BETTER, claim.column not in (*SHAPE, *COST)
    row, than = (claim.better, claim.than) if gain or claim.spread else (claim.than, claim.better)
    sides = [plan.spec.rows.get(side, Reference()) for side in (row, than)]
    first, second = (
        (of.published_sd if claim.spread else of.published).get(claim.column) for of in sides
    )
    published = None
    if claim.spread and first and second:  # printed digits may hide a small one
        published = float(np.log(second / first))
    elif not claim.spread and first is not None and second is not None:
        published = first - (claim.share or 1) * second
    return {
        **claim.model_dump(include={"text", "source", "column", "share", "spread"}),
        "claim": label,
        "row": names.get(row, row),
        "than": names.get(than, than),
        "margin": claim.margin
        if claim.margin is not None
        else 0.5 * (points and not (claim.share or claim.spread)),
        "published": published,
    }


def claim_answer(record: Record) -> tuple[str, str]:
    """A claim *holds* if the difference is significantly above 0. It *does not hold* if it is
    significantly below the margin. Both are after Holm's correction over the study's claims.
    Otherwise the claim is *open*, which says why.

    Each answer takes one side of a two-sided test at 5 %, so both together err with at most 5 % in
    the whole study.
    """
    seeds = record["seeds"]
    if seeds is None:
        return "open", "not measured here"
    if record["same"]:
        return "open", "the two rows have equal settings at this scale"
    n = seeds["n"]
    if seeds["p"] is None:
        few = f"{n} seed(s): at least 3 are needed"
        return "open", few if n < FEWEST_SEEDS else "one of the two has no spread over seeds"
    if seeds["p_holm"] <= ALPHA and seeds["mean"] > 0:
        return "holds", ""
    if seeds["p_margin_holm"] <= ALPHA and seeds["mean"] < record["margin"]:
        return "does not hold", ""
    shown = f"{n} seeds show {seeds['detectable']:.2f} or more if one claim is tested"
    return "open", f"{shown}, and only larger differences if many are"
