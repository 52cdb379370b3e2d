"""What a study found: scores by row and seed, differences tested, claims answered. All of it plain JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from isotrope.data.senteval import STS_TASKS
from isotrope.evaluation.significance import compare_draws
from isotrope.report.scores import SHORT
from isotrope.study.columns import LOWER_IS_BETTER, UNSHOWN, ordered
from isotrope.study.plan import Plan
from isotrope.study.rows import Entry
from isotrope.study.spec import Claim
from isotrope.study.statistics import ALPHA, holm, paired, seeds_needed
from isotrope.training.claim import read

Record = dict[str, Any]
TASKS = {SHORT.get(task, task): task for task in STS_TASKS}  # column -> task


def gather(plan: Plan, failed: Mapping[str, str] | None = None) -> Record:
    """Everything that the study's pages show, from its finished cells; ``failed`` is key -> why.

    A row's scores are its seeds'; a teacher's and an untrained backbone's are one run's, and stand against every seed.
    """
    results = {key: read(cell.result) for key, cell in plan.cells.items() if cell.finished}
    rows = [_row(plan, entry, results, failed or {}) for entry in plan.entries.values()]
    rows += [_teacher(name, key, results) for name, key in plan.models.items() if key in results]
    by_label = {row["label"]: row for row in rows}
    columns = _columns(plan, rows)
    baseline = _baseline(plan)
    main = "Avg." if "Avg." in columns else next(iter(columns), "Avg.")
    others = [row for row in rows if row["label"] != baseline and row["kind"] == "row"]
    draws = _Draws(plan)
    return {
        "name": plan.spec.name,
        "title": plan.spec.title,
        "source": plan.spec.source,
        "note": plan.spec.note,
        "scale": _scale(plan, results.values()),
        "columns": columns,
        "column": main,
        "rows": rows,
        "references": {label: row.model_dump() for label, row in plan.spec.reference.items()},
        "baseline": baseline,
        "spread": _spread(by_label.get(baseline), main),
        "differences": _corrected([_compare(by_label, row["label"], baseline, main, draws) for row in others]),
        "claims": _answers(plan.spec.claims, by_label, plan, draws),
    }


def _row(plan: Plan, entry: Entry, results: Mapping[str, Record], failed: Mapping[str, str]) -> Record:
    keys = plan.rows[entry.label]
    return {
        "label": entry.label,
        "kind": "row" if entry.row.train else "untrained",
        "base": entry.base,
        "at": dict(entry.at),
        "cells": {str(seed): key for seed, key in keys.items()},
        "scores": {str(seed): results[key]["scores"] for seed, key in keys.items() if key in results},
        "published": entry.row.published if not entry.at else {},
        "published_sd": entry.row.published_sd if not entry.at else {},
        "source": entry.row.source,
        "failed": {str(seed): failed[key] for seed, key in keys.items() if key in failed},
    }


def _teacher(name: str, key: str, results: Mapping[str, Record]) -> Record:
    nothing: Record = {"base": name, "at": {}, "published": {}, "published_sd": {}, "source": "", "failed": {}}
    seed = str(results[key]["seed"])
    scores = {seed: results[key]["scores"]}
    return {"label": name, "kind": "teacher", "cells": {seed: key}, "scores": scores, **nothing}


def _columns(plan: Plan, rows: Iterable[Record]) -> list[str]:
    """Those that the study asks for; else all that were measured or published, but for what a table need not show."""
    found = {column for row in rows for scores in row["scores"].values() for column in scores}
    found |= {c for row in plan.spec.rows.values() for c in row.published}
    found |= {c for row in plan.spec.reference.values() for c in row.published}
    asked = set(plan.spec.run.tasks)
    return ordered({column for column in found if column in asked or (not asked and column not in UNSHOWN)})


def _baseline(plan: Plan) -> str:
    """The first row that is trained, unless the study names one that is run."""
    for label, entry in plan.entries.items():
        if plan.spec.run.baseline in (label, entry.base):
            return label
    return next((label for label, entry in plan.entries.items() if entry.row.train), next(iter(plan.entries)))


def _scale(plan: Plan, results: Iterable[Record]) -> Record:
    """At what size all this was run."""
    found = list(results)
    run = plan.spec.run
    return {
        "backbones": sorted({str(cell.settings["base"]) for cell in plan.cells.values()}),
        "sentences": run.sentences,
        "seeds": run.seeds,
        "corpora": sorted({r["data"]["corpus"]["key"] for r in found if "corpus" in r["data"]}),
        "cells": len(plan.cells),
        "finished": len(found),
        "test": run.test,
    }


def _spread(row: Record | None, column: str) -> Record | None:
    """The baseline's standard deviation over seeds, and the seeds that differences of 0.5 and 1 would need.

    As if rows were independent: a difference's variance is then twice a row's. Pairing by seed can only tell later.
    """
    values = [scores[column] for scores in row["scores"].values() if column in scores] if row else []
    if len(values) < 2:
        return None
    sd = float(np.std(values, ddof=1))
    return {"sd": sd, "n": len(values), "needed": {str(d): seeds_needed(d, 2**0.5 * sd) for d in (0.5, 1.0)}}


class _Draws:
    """Bootstrap draws of rows: of every seed on the same resamples of pairs, averaged over seeds."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def of(self, keys: Iterable[str], column: str) -> Any:
        """(R,) in points, or None where the column has no pairs."""
        drawn = []
        for key in keys:
            path = self.plan.cells[key].folder / "draws.npz"
            if not path.is_file():
                return None
            with np.load(path, allow_pickle=False) as file:
                tasks = file.files if column == "Avg." else [t for t in file.files if t == TASKS.get(column, column)]
                if not tasks:
                    return None
                drawn.append(100 * np.mean([file[task] for task in tasks], axis=0))
        return np.mean(drawn, axis=0) if drawn else None


def _compare(
    rows: Mapping[str, Record], first: str, second: str, column: str, draws: _Draws, margin: float = 0
) -> Record:
    """The difference first − second: paired over seeds, and over pairs for the mean of the same seeds."""
    record: Record = {"row": first, "than": second, "column": column, "seeds": None, "pairs": None, "same": False}
    if first not in rows or second not in rows:
        return record
    a, b = rows[first], rows[second]
    left, right = _by_seed(a, column), _by_seed(b, column)
    if a["kind"] != "row" and right:  # one model against every seed
        left = dict.fromkeys(right, *left.values()) if left else {}
    elif b["kind"] != "row" and left:
        right = dict.fromkeys(left, *right.values()) if right else {}
    common = sorted(left.keys() & right.keys(), key=int)
    if not common:
        return record
    record["seeds"] = asdict(paired([left[seed] for seed in common], [right[seed] for seed in common], margin))
    cells = [[row["cells"][s] for s in common if s in row["cells"]] or list(row["cells"].values()) for row in (a, b)]
    record["same"] = cells[0] == cells[1]
    drawn = [draws.of(keys, column) for keys in cells]
    if drawn[0] is not None and drawn[1] is not None:
        means = [float(np.mean([side[seed] for seed in common])) for side in (right, left)]
        found = compare_draws(means[0], means[1], drawn[1], drawn[0])
        record["pairs"] = {"low": found.low, "high": found.high, "p": found.p}
    return record


def _by_seed(row: Record, column: str) -> dict[str, float]:
    return {seed: scores[column] for seed, scores in row["scores"].items() if column in scores}


def _corrected(records: list[Record]) -> list[Record]:
    """Every p value corrected for the number of comparisons, those over seeds and those over pairs each by itself."""
    for kind, name in (("seeds", "p"), ("seeds", "p_margin"), ("pairs", "p")):
        found = holm([record[kind][name] if record[kind] else None for record in records])
        for record, value in zip(records, found, strict=True):
            if record[kind]:
                record[kind][f"{name}_holm"] = value
    return records


def _answers(claims: Mapping[str, Claim], rows: Mapping[str, Record], plan: Plan, draws: _Draws) -> list[Record]:
    """The papers' claims, each with what was measured and the answer."""
    names = {label: label for label in plan.entries}
    for label, entry in plan.entries.items():
        names.setdefault(entry.base, label)  # the first of a sweep
    compared = []
    for label, claim in claims.items():
        sign = -1 if claim.column in LOWER_IS_BETTER else 1
        first, second = (names.get(side, side) for side in (claim.better, claim.than))
        sides = (first, second) if sign == 1 else (second, first)  # so that a gain is positive
        compared.append(
            _compare(rows, *sides, claim.column, draws, claim.least) | {"claim": label, "margin": claim.least}
        )
    for record, claim in zip(_corrected(compared), claims.values(), strict=True):
        both = [plan.spec.rows[side].published if side in plan.spec.rows else {} for side in (claim.better, claim.than)]
        known = all(claim.column in published for published in both)
        record["published"] = both[0][claim.column] - both[1][claim.column] if known else None
        record |= {"text": claim.text, "source": claim.source, "better": claim.better, "worse": claim.than}
        record["answer"], record["why"] = answer(record)
    return compared


def answer(record: Record) -> tuple[str, str]:
    """The rule: *holds* where the difference is above 0, *does not hold* where it is below the margin (both after
    Holm's correction over the study's claims), and otherwise *cannot be told*.
    """
    seeds, unknown = record["seeds"], "cannot be told"
    if seeds is None:
        return unknown, "not measured here"
    if record["same"]:
        return unknown, "the two rows have equal settings at this scale"
    if seeds["p"] is None:
        return unknown, f"{seeds['n']} seed(s): at least 3 are needed"
    if seeds["p_holm"] <= ALPHA and seeds["mean"] > 0:
        return "holds", ""
    if seeds["p_margin_holm"] <= ALPHA and seeds["mean"] < record["margin"]:
        return "does not hold", ""
    return unknown, f"{seeds['n']} seeds show a difference of {seeds['detectable']:.2f} or more"
