"""Results of several models as tables: one table for each measure, a row for each model, a column for each task."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from isotrope.evaluation.models import OWN_DATA
from isotrope.evaluation.significance import compare as compare_cases
from isotrope.evaluation.significance import interval, resample
from isotrope.evaluation.suite import SUITES, Measure, cases_in_words, cases_of
from isotrope.evaluation.verdict import Verdict
from isotrope.report.comparison import SHORT_NAMES, before_after
from isotrope.report.tables import Table, best_marks

ModelResults = Mapping[str, Mapping[str, Any]]  # model -> task -> result


def all_tables(results: Mapping[str, Mapping[str, Any]], compare: bool = False, intervals: bool = False) -> list[Table]:
    """The results of `isotrope.evaluation.models.evaluate_models`, model -> suite -> task -> result, as tables.

    With ``compare``, each model is also tested against the first; UserError where they were judged on different cases.
    With ``intervals``, there are also 95 % intervals of Spearman's correlations.
    """
    models, found = list(results), []
    for title in results[models[0]]:
        name = title.removesuffix(OWN_DATA)
        suite, of_suite = SUITES[name], {model: results[model][title] for model in models}
        found += suite_tables(name, of_suite, title)
        if intervals and name == "sts":
            found.append(interval_table(title, of_suite))
        if compare and suite.cases is not None:
            cases = {model: cases_of(name, result) for model, result in of_suite.items()}
            judged = {model: compare_cases(cases[models[0]], cases[model]) for model in models[1:]}
            against = f"against {models[0]} (before), paired bootstrap over the same cases"
            measure = suite.measures[0].title
            rows = {model: asdict(one) for model, one in judged.items()}
            table = before_after(f"{title}: {measure} {against}", rows, "model")
            words = {"judge": cases_in_words(name, of_suite[models[0]]), "measure": measure}
            verdicts = [Verdict.of(one, before=models[0], after=m, **words) for m, one in judged.items()]
            found.append(replace(table, notes=[" ".join(str(one).split("\n")) for one in verdicts]))
    return found


def suite_tables(suite: str, results: ModelResults, title: str | None = None) -> list[Table]:
    """The tables of one suite: one for each measure, or one for all measures if there is a single task.

    A measure that no task has gets no table. The average is shown if all tasks are there that the papers average over.
    For "sts" it is the exact mean, not the mean of rounded cells.
    """
    known, title = SUITES[suite], title or suite
    of_task = next(iter(results.values()))
    if len(of_task) == 1:
        (task,) = of_task
        shown = [m for m in known.measures if not math.isnan(m.of(of_task[task]))]
        columns = [[m.scale * m.of(r[task]) for r in results.values()] for m in shown]
        return [_table(f"{title}: {SHORT_NAMES.get(task, task)}", [m.title for m in shown], columns, shown, results)]
    found = (_of_measure(suite, measure, results, title) for measure in known.measures)
    return [table for table in found if len(table.header) > 1]


def interval_table(title: str, results: ModelResults) -> Table:
    """95 % intervals of Spearman's correlation by a seeded bootstrap over pairs; of the average if it is shown."""
    rows = []
    for name, of_task in results.items():
        drawn = resample(cases_of("sts", of_task))
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
        sums = (sum(measure.of(result[task]) for task in averaged) for result in results.values())
        columns.append([measure.scale * total / len(averaged) for total in sums])
    return _table(f"{title}: {measure.title}", names, columns, [measure] * len(names), results)


def _table(
    title: str, names: list[str], columns: list[list[float]], measures: Sequence[Measure], models: Iterable[str]
) -> Table:
    cells = [
        ["" if math.isnan(value) else f"{value:.{2 if m.scale == 100 else 4}f}" for value in column]
        for m, column in zip(measures, columns, strict=True)
    ]
    rows = [[model, *(column[i] for column in cells)] for i, model in enumerate(models)]
    rounded = [[float(text or "nan") for text in column] for column in cells]
    return Table(title, ["model", *names], rows, best_marks(rounded, [m.lower for m in measures]))
