"""Several models on several suites: the tables that papers print, and all numbers as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isotrope.data.pairs import read_pairs
from isotrope.data.senteval import data_folder
from isotrope.encoder import load
from isotrope.encoder.load import locate
from isotrope.errors import UserError
from isotrope.evaluation.sts import evaluate_pairs
from isotrope.evaluation.suite import average, check, run

Table = tuple[str, list[str], list[list[str]]]  # title, header, rows
SHORT = {"STSBenchmark": "STS-B", "SICKRelatedness": "SICK-R"}


def evaluate_models(
    models: Sequence[str],
    suites: Sequence[str],
    tasks: str | None,
    data: str | Path | None,
    pairs: Sequence[str | Path],
    pooling: str | None,
    json_file: str | None,
) -> list[Table]:
    """Evaluate every model on every suite and on the user's own pairs -> tables of points.

    With ``pairs`` and no data folder, the pairs alone are evaluated. All input is read before a model is loaded.

    Raises:
        UserError: as ``isotrope.evaluation.suite.run`` and ``isotrope.load`` do, or ``json_file`` cannot be written.
    """
    own = [read_pairs(path) for path in pairs]
    asked = [] if own and data is None else [suite.strip() for suite in suites]
    target = Path(json_file) if json_file else None
    if target is not None and not target.parent.is_dir():
        raise UserError(f"{target.parent} does not exist, so {target.name} cannot be written there", "make the folder")
    if target is not None and target.is_dir():
        raise UserError(f"{target} is a folder", "name a file for the results")
    chosen = [task.strip() for task in tasks.split(",")] if tasks else None
    for suite in asked:
        check(suite, chosen)
    if asked:
        data_folder(data)
    for name in models:
        locate(name)
    results: dict[str, dict[str, Any]] = {}
    for name in models:
        encoder = load(name, pooling)
        results[name] = {suite: run(encoder, suite, data, chosen) for suite in asked}
        if own:
            results[name]["pairs"] = {p.name: evaluate_pairs(encoder, p)[p.name] for p in own}
        if target is not None:
            try:
                target.write_text(json.dumps(results, indent=2), encoding="utf-8")
            except OSError as error:
                raise UserError(f"{target} cannot be written ({error.strerror})", "name another file") from error
    return [_table(suite, results) for suite in [*asked, *(["pairs"] if own else [])]]


def points(result: Mapping[str, Any]) -> float:
    """The one number of a task that papers print: Spearman × 100 of "all", or of the test split."""
    scores = result["spearman"]
    return 100 * float(scores["all"] if "all" in scores else scores["test"])


def _table(suite: str, results: Mapping[str, Mapping[str, Any]]) -> Table:
    first = next(iter(results.values()))[suite]
    if suite == "geometry":
        measures = [m for m, value in next(iter(first.values())).items() if isinstance(value, (int, float))]
        rows = [[name, *(f"{next(iter(r[suite].values()))[m]:.4f}" for m in measures)] for name, r in results.items()]
        return suite, ["model", *measures], rows
    if suite == "ranking":
        rows = [
            [f"{name}, {title}", *(f"{100 * task[key]:.2f}" for task in r[suite].values())]
            for key, title in (("kendall", "KCC"), ("ndcg", "NDCG"))
            for name, r in results.items()
        ]
        return "ranking: KCC and NDCG × 100", ["model", *(SHORT.get(task, task) for task in first)], rows
    rows = [[name, *(f"{points(task):.2f}" for task in r[suite].values())] for name, r in results.items()]
    header = ["model", *(SHORT.get(task, task) for task in first)]
    if suite == "sts" and len(first) == 7:
        header.append("Avg.")
        for row, result in zip(rows, results.values(), strict=True):
            row.append(f"{100 * average(result[suite]).exact:.2f}")
    return f"{suite}: Spearman × 100", header, rows
