"""Results of several models as tables, also in a file: a table a measure, a row a model, a column a
task.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
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
from isotrope.report.tables import Table, best_marks, markdown
from isotrope.store.files import check_file, write_text, writing

ModelResults = Mapping[str, Mapping[str, Any]]  # model -> task -> result


def all_tables(
    results: Mapping[str, Mapping[str, Any]], compare: bool = False, intervals: bool = False
) -> list[Table]:
    """The results of `isotrope.evaluation.models.evaluate_models`, model -> suite -> task ->
    result, as tables.

    With ``compare``, each model is also tested against the first; UserError if they were judged
    on different cases. With ``intervals``, there are also 95 % intervals of Spearman's
    correlations.
    """
    first_model = next(iter(results))
    tables = []
    for title in results[first_model]:
        suite = title.removesuffix(OWN_DATA)
        suite_results = {model: by_suite[title] for model, by_suite in results.items()}
        tables += suite_tables(suite, suite_results, title)
        if intervals and suite == "sts":
            tables.append(interval_table(title, suite_results))
        if compare and SUITES[suite].cases is not None:
            tables.append(_comparison_table(suite, suite_results, title))
    return tables


def _comparison_table(suite: str, results: ModelResults, title: str) -> Table:
    """Each model against the first, on the same cases."""
    before, *other_models = results
    judge = cases_in_words(suite, results[before])
    measure = SUITES[suite].measures[0].title
    cases_before = cases_of(suite, results[before])

    rows = {}
    notes = []
    for after in other_models:
        comparison = compare_cases(cases_before, cases_of(suite, results[after]))
        verdict = Verdict.of(comparison, before=before, after=after, judge=judge, measure=measure)
        rows[after] = asdict(comparison)
        notes.append(str(verdict).replace("\n", " "))

    against = f"against {before} (before), paired bootstrap over the same cases"
    return before_after(f"{title}: {measure} {against}", rows, "model", notes)


@dataclass(frozen=True, slots=True)
class _Column:
    """A measure of all models, as it is shown."""

    cells: list[str]  # (N,); "" if a model lacks it
    lower: bool  # the smallest is the best


def suite_tables(suite: str, results: ModelResults, title: str) -> list[Table]:
    """The tables of one suite: one for each measure, or one for all measures if there is a single
    task.

    A measure that no task has gets no table. The average is shown if all tasks are there that the
    papers average over. For "sts" it is the exact mean, not the mean of rounded cells.
    """
    tasks = list(next(iter(results.values())))
    measures = SUITES[suite].measures
    if len(tasks) == 1:
        columns = {measure.title: _column(measure, tasks, results) for measure in measures}
        return [_table(f"{title}: {_short_name(tasks[0])}", columns, results)]

    averaged = SUITES[suite].averaged
    tables = []
    for measure in measures:
        columns = {_short_name(task): _column(measure, [task], results) for task in tasks}
        if averaged and set(averaged) <= set(tasks):
            columns["Avg."] = _column(measure, averaged, results)
        table = _table(f"{title}: {measure.title}", columns, results)
        if len(table.header) > 1:
            tables.append(table)
    return tables


def _column(measure: Measure, tasks: Sequence[str], results: ModelResults) -> _Column:
    """The mean over some tasks for each model."""
    decimals = 2 if measure.scale == 100 else 4
    cells = []
    for by_task in results.values():
        total = sum(measure.of(by_task[task]) for task in tasks)
        mean = measure.scale * total / len(tasks)
        cells.append("" if math.isnan(mean) else f"{mean:.{decimals}f}")
    return _Column(cells, measure.lower)


def _short_name(task: str) -> str:
    return SHORT_NAMES.get(task, task)


def interval_table(title: str, results: ModelResults) -> Table:
    """95 % intervals of Spearman's correlation by a seeded bootstrap over pairs; of the average if
    it is shown.
    """
    averaged = SUITES["sts"].averaged
    tasks = list(next(iter(results.values())))
    has_average = set(averaged) <= set(tasks)

    rows = []
    for model, by_task in results.items():
        draws_of = resample(cases_of("sts", by_task))  # task -> (R,)
        draws = [draws_of[task] for task in tasks]
        if has_average:
            draws.append(np.mean([draws_of[task] for task in averaged], axis=0))
        row = [model]
        for scores in draws:
            low, high = interval(scores)
            row.append(f"{100 * low:.2f} … {100 * high:.2f}")
        rows.append(row)

    header = ["model", *map(_short_name, tasks)]
    if has_average:
        header.append("Avg.")
    return Table(f"{title}: 95 % interval over pairs, Spearman × 100", header, rows)


def _table(title: str, columns: Mapping[str, _Column], models: Iterable[str]) -> Table:
    """A row a model, without empty columns. Marks follow the rounded numbers, which readers see."""
    shown = {name: column for name, column in columns.items() if any(column.cells)}
    cells = [column.cells for column in shown.values()]
    rounded = [[float(cell or "nan") for cell in column] for column in cells]
    marks = best_marks(rounded, [column.lower for column in shown.values()])
    rows = [list(row) for row in zip(models, *cells, strict=True)]
    return Table(title, ["model", *shown], rows, marks)


def check_table_file(path: str | Path) -> Path:
    """The path of a Markdown file that tables will be written to, checked before the work.

    Raises UserError for another ending, and as `check_file` does.
    """
    target = Path(path)
    if target.suffix != ".md":
        problem = f"{target.name}: tables are written as Markdown"
        raise UserError(problem, "let it end with .md", code="unknown-format")
    return check_file(target)


def write_tables(tables: Sequence[Table], target: Path) -> None:
    """Write tables, whole or not at all.

    Raises UserError if the disk is full.
    """
    with writing(target.parent, again="run the same command again"):
        write_text(target, markdown(tables))
