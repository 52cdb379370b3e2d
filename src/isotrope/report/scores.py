"""Results of several models as tables, also in files: a table a measure, a row a model, a column a
task.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from isotrope.errors import UserError
from isotrope.evaluation.models import OWN_DATA
from isotrope.evaluation.significance import compare as compare_cases
from isotrope.evaluation.significance import interval, resample
from isotrope.evaluation.suite import SUITES, Measure, cases_in_words, cases_of
from isotrope.evaluation.verdict import Verdict
from isotrope.report.comparison import SHORT_NAMES, before_after
from isotrope.report.page import Page
from isotrope.report.tables import Table, best_marks, latex, markdown
from isotrope.store.files import check_file, write_text, writing

ModelResults = Mapping[str, Mapping[str, Any]]  # model -> task -> result
TABLE_FORMATS: Mapping[str, Callable[[Sequence[Table]], str]] = {  # by the ending of a file's name
    ".md": markdown,
    ".tex": latex,
    ".html": lambda tables: Page("isotrope evaluate", tables=tables).html(),
}


def all_tables(
    results: Mapping[str, Mapping[str, Any]], compare: bool = False, intervals: bool = False
) -> list[Table]:
    """The results of `isotrope.evaluation.models.evaluate_models`, model -> suite -> task ->
    result, as tables.

    With ``compare``, each model is also tested against the first; UserError where they were judged
    on different cases. With ``intervals``, there are also 95 % intervals of Spearman's
    correlations.
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
            words = {"judge": cases_in_words(name, of_suite[models[0]]), "measure": measure}
            verdicts = [
                Verdict.of(one, before=models[0], after=m, **words) for m, one in judged.items()
            ]
            notes = [str(one).replace("\n", " ") for one in verdicts]
            found.append(before_after(f"{title}: {measure} {against}", rows, "model", notes))
    return found


def suite_tables(suite: str, results: ModelResults, title: str | None = None) -> list[Table]:
    """The tables of one suite: one for each measure, or one for all measures if there is a single
    task.

    A measure that no task has gets no table. The average is shown if all tasks are there that the
    papers average over. For "sts" it is the exact mean, not the mean of rounded cells.
    """
    known, title = SUITES[suite], title or suite
    tasks = list(next(iter(results.values())))
    every = {(m, task): _column(m, [task], results) for m in known.measures for task in tasks}
    columns = {place: column for place, column in every.items() if not all(map(math.isnan, column))}
    if len(tasks) == 1:
        shown = {m.title: (m, column) for (m, _), column in columns.items()}
        return [_table(f"{title}: {SHORT_NAMES.get(tasks[0], tasks[0])}", shown, results)]
    found = []
    for measure in known.measures:
        shown = {
            SHORT_NAMES.get(task, task): (m, column)
            for (m, task), column in columns.items()
            if m is measure
        }
        if known.averaged and all((measure, task) in columns for task in known.averaged):
            shown["Avg."] = measure, _column(measure, known.averaged, results)
        if shown:
            found.append(_table(f"{title}: {measure.title}", shown, results))
    return found


def interval_table(title: str, results: ModelResults) -> Table:
    """95 % intervals of Spearman's correlation by a seeded bootstrap over pairs; of the average if
    it is shown.
    """
    rows = []
    for name, of_task in results.items():
        drawn = resample(cases_of("sts", of_task))
        draws = list(drawn.values())
        if set(SUITES["sts"].averaged) <= set(drawn):
            draws.append(np.mean([drawn[task] for task in SUITES["sts"].averaged], axis=0))
        rows.append(
            [name, *(" … ".join(f"{100 * bound:.2f}" for bound in interval(one)) for one in draws)]
        )
    names = [SHORT_NAMES.get(task, task) for task in next(iter(results.values()))]
    header = ["model", *names, *(["Avg."] if len(rows[0]) > len(names) + 1 else [])]
    return Table(f"{title}: 95 % interval over pairs, Spearman × 100", header, rows)


def _column(measure: Measure, tasks: Sequence[str], results: ModelResults) -> list[float]:
    """The mean over some tasks for each model, as it is shown; NaN where a task lacks the measure."""
    sums = (sum(measure.of(of_task[task]) for task in tasks) for of_task in results.values())
    return [measure.scale * total / len(tasks) for total in sums]


def _table(
    title: str, columns: Mapping[str, tuple[Measure, list[float]]], models: Iterable[str]
) -> Table:
    cells = [
        ["" if math.isnan(value) else f"{value:.{2 if m.scale == 100 else 4}f}" for value in column]
        for m, column in columns.values()
    ]
    rounded = [[float(text or "nan") for text in column] for column in cells]
    marks = best_marks(rounded, [m.lower for m, _ in columns.values()])
    return Table(
        title, ["model", *columns], [list(row) for row in zip(models, *cells, strict=True)], marks
    )


def check_table_file(path: str | Path) -> Path:
    """As `check_file`, of a file that tables will be written to; UserError also for an unknown
    ending.
    """
    target = Path(path)
    if target.suffix not in TABLE_FORMATS:
        raise UserError(
            f"{target.name}: unknown format for tables",
            f"let it end with {', '.join(TABLE_FORMATS)}",
        )
    return check_file(target)


def write_tables(tables: Sequence[Table], target: Path) -> None:
    """Write tables in the format of the file's ending, whole or not at all; UserError where the
    disk is full.
    """
    with writing(target.parent, again="run the same command again"):
        write_text(target, TABLE_FORMATS[target.suffix](tables))
