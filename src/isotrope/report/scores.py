"""ModelResults of several models as the tables that papers print: a block a measure, a row a model, a column a task."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from isotrope.evaluation.models import OWN_DATA
from isotrope.evaluation.paired_cases import pair_cases
from isotrope.evaluation.significance import interval, resample
from isotrope.evaluation.suite import SUITES, Measure, average
from isotrope.report.comparison import SHORT_NAMES, before_after
from isotrope.report.tables import Table, best_marks

ModelResults = Mapping[str, Mapping[str, Any]]  # model -> task -> result


def all_tables(results: Mapping[str, Mapping[str, Any]], compare: bool = False, intervals: bool = False) -> list[Table]:
    """Model → suite → task → result, as `evaluate_models` gives it, as tables.

    With `compare` also tests against the first model, with `intervals` 95 % intervals of Spearman's correlations.

    Raises UserError where models were judged on different cases.
    """
    models, found = list(results), []
    for suite in next(iter(results.values())):
        of_suite = {model: results[model][suite] for model in models}
        found += tables(suite.removesuffix(OWN_DATA), of_suite, suite)
        if intervals and suite.removesuffix(OWN_DATA) == "sts":
            found.append(interval_table(suite, of_suite))
        judge = SUITES[suite.removesuffix(OWN_DATA)].compare
        if compare and judge is not None:
            judged = {model: judge(of_suite[models[0]], of_suite[model], 0) for model in models[1:]}
            measure = SUITES[suite.removesuffix(OWN_DATA)].measures[0].title
            title = f"{suite}: {measure} against {models[0]} (before), paired bootstrap over the same cases"
            found.append(before_after(title, {model: asdict(one) for model, one in judged.items()}, "model"))
    return found


def tables(suite: str, results: ModelResults, title: str | None = None) -> list[Table]:
    """The tables of one suite: one a measure, or one for all where there is a single task.

    The average is taken where all tasks are there that the papers average over; of "sts" it is the exact mean, not the
    mean of rounded cells.
    """
    known, title = SUITES[suite], title or suite
    of_task = next(iter(results.values()))
    tasks = list(of_task)
    if len(tasks) == 1:
        shown = [m for m in known.measures if not math.isnan(m.of(of_task[tasks[0]]))]
        columns = [[m.scale * m.of(r[tasks[0]]) for r in results.values()] for m in shown]
        return [
            _table(
                f"{title}: {SHORT_NAMES.get(tasks[0], tasks[0])}",
                [m.title for m in shown],
                columns,
                shown,
                list(results),
            )
        ]
    return [_of_measure(suite, measure, results, title) for measure in known.measures]


def interval_table(title: str, results: ModelResults) -> Table:
    """95 % intervals of Spearman's correlation by a seeded bootstrap over pairs; of the average where all seven are."""
    rows = []
    for name, of_task in results.items():
        drawn = resample(pair_cases(of_task))
        draws = list(drawn.values())
        if set(SUITES["sts"].averaged) <= set(drawn):
            draws.append(np.mean([drawn[task] for task in SUITES["sts"].averaged], axis=0))
        rows.append([name, *(" … ".join(f"{100 * bound:.2f}" for bound in interval(one)) for one in draws)])
    names = [SHORT_NAMES.get(task, task) for task in next(iter(results.values()))]
    header = ["model", *names, *(["Avg."] if len(rows[0]) > len(names) + 1 else [])]
    return Table(f"{title}: 95 % interval over pairs, Spearman × 100", header, rows)


def _of_measure(suite: str, measure: Measure, results: ModelResults, title: str) -> Table:
    tasks = list(next(iter(results.values())))
    has = [task for task in tasks if not all(math.isnan(measure.of(r[task])) for r in results.values())]
    columns = [[measure.scale * measure.of(r[task]) for r in results.values()] for task in has]
    names = [SHORT_NAMES.get(task, task) for task in has]
    averaged = SUITES[suite].averaged
    if averaged and set(averaged) <= set(has):
        names.append("Avg.")
        columns.append([measure.scale * _average(suite, measure, r) for r in results.values()])
    return _table(f"{title}: {measure.title}", names, columns, [measure] * len(names), list(results))


def _average(suite: str, measure: Measure, result: Mapping[str, Any]) -> float:
    if suite == "sts":
        return average(result).exact
    tasks = SUITES[suite].averaged
    return sum(measure.of(result[task]) for task in tasks) / len(tasks)


def _table(title: str, names: list[str], columns: list[list[float]], of: list[Measure], models: list[str]) -> Table:
    cells = [
        [f"{value:.{2 if m.scale == 100 else 4}f}" for value in column] for m, column in zip(of, columns, strict=True)
    ]
    rows = [[model, *row] for model, row in zip(models, zip(*cells, strict=True), strict=True)]
    rounded = [[float(value) for value in column] for column in cells]
    return Table(title, ["model", *names], rows, best_marks(rounded, [m.lower for m in of]))
