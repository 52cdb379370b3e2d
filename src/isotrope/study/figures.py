"""A study's figures, as in the papers, from the finished cells. Each kind of figure is one
function.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.ticker import FuncFormatter, NullLocator

from isotrope.evaluation.geometry import by_gold_band
from isotrope.report.figures import add_legend, new_figure, style, svg
from isotrope.report.page import INK, RULE, SERIES
from isotrope.store.files import write_text, writing
from isotrope.study.cell import Cell
from isotrope.study.plan import StudyPlan
from isotrope.study.record import CellResult, Mean, StudyRecord, StudyRow
from isotrope.study.spec import FigureSettings
from isotrope.types import Vector

UNITS = {
    "alignment": "alignment (lower: positives closer)",
    "uniformity": "uniformity (lower: spread wider)",
}


def draw(plan: StudyPlan, record: StudyRecord, folder: Path) -> dict[str, str]:
    """Draw every figure that has numbers -> title: file name."""
    files: dict[str, str] = {}
    for name, settings in plan.spec.figures.items():
        rows = _rows_of(settings, record)
        if not rows:
            continue
        with style(), writing(folder):
            figure = KINDS[settings.kind](plan, rows, settings)
            if not any(axes.has_data() for axes in figure.axes):
                continue
            if any(figure.axes[0].get_legend_handles_labels()):
                add_legend(figure.axes[0], 2)
            write_text(folder / f"{name}.svg", svg(figure))
        files[_title(settings)] = f"{name}.svg"
    return files


def _rows_of(settings: FigureSettings, record: StudyRecord) -> list[StudyRow]:
    """The measured rows that a figure names; all if it names none. Teachers are no rows."""
    rows = [row for row in record.rows if row.scores and row.kind != "teacher"]
    if not settings.rows:
        return rows
    return [row for row in rows if row.label in settings.rows or row.base in settings.rows]


def _title(settings: FigureSettings) -> str:
    return f"{settings.title} (after {settings.source})" if settings.source else settings.title


def _color(number: int) -> str:
    return SERIES[number % len(SERIES)]


def bars_figure(plan: StudyPlan, rows: Sequence[StudyRow], settings: FigureSettings) -> Figure:
    """Means of the columns with one standard deviation; one group for each row."""
    columns = settings.columns
    figure, axes = new_figure(0.9 + 0.2 * len(rows) * len(columns), 5.4)
    from_top = np.arange(len(rows))[::-1]
    for i, column in enumerate(columns):
        means = [row.mean(column) or Mean(np.nan, None, 0) for row in rows]
        within_group = 0.8 * (i + 0.5) / len(columns) - 0.4
        axes.errorbar(
            [mean.value for mean in means],
            from_top - within_group,
            xerr=[mean.sd or 0 for mean in means],
            fmt="o",
            color=_color(i),
            label=column if len(columns) > 1 else "",
        )
    axes.set_yticks(from_top, [row.label for row in rows])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set(xlabel="mean ± standard deviation over seeds", ylim=(-0.6, len(rows) - 0.4))
    return figure


def sweep_figure(plan: StudyPlan, rows: Sequence[StudyRow], settings: FigureSettings) -> Figure:
    """Means over the values of one key. A line for each swept row, column, and combination of other
    keys' values.
    """
    points = pd.DataFrame(_sweep_points(rows, settings), columns=["line", "x", "y", "sd"])
    figure, axes = new_figure(2.9, 5.4)
    lines = points.groupby("line", sort=False)
    for i, (name, line) in enumerate(lines):
        ordered = line.sort_values("x")
        axes.errorbar(
            ordered["x"],
            ordered["y"],
            yerr=ordered["sd"],
            marker="o",
            color=_color(i),
            label=str(name) if len(lines) > 1 else "",
        )
    _scale_x(axes, sorted(points["x"].unique()))
    axes.set(xlabel=settings.x, ylabel=", ".join(settings.columns))
    return figure


def _sweep_points(
    rows: Sequence[StudyRow], settings: FigureSettings
) -> Iterator[tuple[str, float, float, float]]:
    """The line, x, y and standard deviation of each point."""
    for row in rows:
        if settings.x not in row.at:
            continue
        words = [row.base]
        for key, value in row.at.items():
            if key != settings.x:
                words.append(f"{key.rsplit('.', 1)[-1]} = {value}")
        for column in settings.columns:
            column_name = [column] if len(settings.columns) > 1 else []
            if mean := row.mean(column):
                line = ", ".join([*words, *column_name])
                yield line, float(row.at[settings.x]), mean.value, mean.sd or 0.0


def _scale_x(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic axis for values over more than one order of magnitude; a tick at each of few."""
    if values and values[-1] > 20 * values[0] > 0:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if len(values) < 10:
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.xaxis.set_minor_locator(NullLocator())


def curve_figure(plan: StudyPlan, rows: Sequence[StudyRow], settings: FigureSettings) -> Figure:
    """What was logged at every evaluation (alignment, uniformity), the mean over seeds, over the
    steps.
    """
    figure = Figure(figsize=(4.2 * len(settings.columns), 2.9))
    panels = figure.subplots(1, len(settings.columns), squeeze=False)[0]
    for axes, column in zip(panels, settings.columns, strict=True):
        for i, row in enumerate(rows):
            curve = _mean_curve(plan, row, column)
            marker = "o" if len(curve) < 10 else ""
            if len(curve):
                axes.plot(curve.index, curve, color=_color(i), label=row.label, marker=marker)
        axes.set(xlabel="step", ylabel=UNITS.get(column, column))
    return figure


def _mean_curve(plan: StudyPlan, row: StudyRow, column: str) -> "pd.Series[float]":
    """The mean over the seeds, by the steps that every seed has logged."""
    curves: list[dict[int, float]] = []
    for cell in _finished_cells(plan, row):
        logged = {record["step"]: record[column] for record in cell.metrics() if column in record}
        if logged:
            curves.append(logged)
    return pd.DataFrame(curves).dropna(axis=1).mean().sort_index()


def plane_figure(plan: StudyPlan, rows: Sequence[StudyRow], settings: FigureSettings) -> Figure:
    """Alignment against uniformity: a dot for each row, with its name and its score in the first
    column.
    """
    column = settings.columns[0]
    figure, axes = new_figure(2.9, 5.4)
    placed: list[tuple[StudyRow, tuple[float, float]]] = []
    for row in rows:
        alignment, uniformity = row.mean("alignment"), row.mean("uniformity")
        if alignment and uniformity:
            placed.append((row, (uniformity.value, alignment.value)))
    for i, (row, point) in enumerate(placed):
        score = row.mean(column)
        name = f"{row.label} {score.value:.2f}" if score else row.label
        axes.plot(*point, "o", color=_color(i))
        axes.annotate(name, point, (6, 4), textcoords="offset points", color=_color(i))
    axes.margins(0.25)
    axes.set(xlabel=UNITS["uniformity"], ylabel=UNITS["alignment"])
    return figure


def cosines_figure(plan: StudyPlan, rows: Sequence[StudyRow], settings: FigureSettings) -> Figure:
    """Cosines of test pairs by bands of their gold score, all seeds together: medians, and the
    middle 80 %.
    """
    figure, axes = new_figure(3.3, 5.4)
    labels: list[str] = []
    for i, row in enumerate(rows):
        bands = _cosine_bands(plan, row)
        if not bands:
            continue
        labels = [*bands]
        for band, cosines in enumerate(bands.values()):
            if not len(cosines):
                continue
            low, middle, high = np.quantile(cosines, [0.1, 0.5, 0.9])
            y = band + 0.7 * (i + 0.5) / len(rows)
            label = row.label if band == 0 else ""
            axes.hlines(y, low, high, color=_color(i), label=label)
            axes.plot(middle, y, "o", color=_color(i))
    axes.set_yticks(np.arange(len(labels)) + 0.35, labels)
    axes.set(xlabel="cosine of the pair", ylabel="gold score")
    return figure


def _cosine_bands(plan: StudyPlan, row: StudyRow) -> dict[str, Vector]:
    """Band of the gold score -> cosines (n,) of STS-B's pairs, or of the first test, of all seeds."""
    golds: list[Any] = []
    cosines: list[Any] = []
    for cell in _finished_cells(plan, row):
        tests = cell.cosines()
        if tests:
            gold, cosine = tests.get("STSBenchmark") or next(iter(tests.values()))
            golds.append(gold)
            cosines.append(cosine)
    if not golds:
        return {}
    bands = by_gold_band(np.concatenate(golds), {"": np.concatenate(cosines)})
    return {label: values[""] for label, values in bands}


def in_batch_figure(plan: StudyPlan, rows: Sequence[StudyRow], settings: FigureSettings) -> Figure:
    """Cosines of unrelated sentences of the corpus: a line for each row, all seeds together."""
    figure, axes = new_figure(2.9, 5.4)
    for i, row in enumerate(rows):
        counts = [result.in_batch for result in _results(plan, row) if result.in_batch]
        if not counts:
            continue
        total = np.sum(counts, axis=0)  # (bins,)
        edges = np.linspace(-1, 1, len(total) + 1)
        percent = 100 * total / total.sum()
        axes.stairs(percent, edges, color=_color(i), label=row.label, lw=1.5)
    axes.set(xlabel="cosine of two sentences of the corpus", ylabel="% of the pairs")
    return figure


def projection_figure(
    plan: StudyPlan, rows: Sequence[StudyRow], settings: FigureSettings
) -> Figure:
    """Sentences of the first seed of each row, projected (`isotrope.study.measure`), within the
    unit circle.
    """
    projections: dict[str, list[list[float]]] = {}
    for row in rows:
        for result in _results(plan, row)[:1]:
            if result.projection:
                projections[row.label] = result.projection
    count = max(1, len(projections))
    figure = Figure(figsize=(2.6 * count, 2.9))
    panels = figure.subplots(1, count, squeeze=False)[0]
    for i, (label, points) in enumerate(projections.items()):
        panels[i].plot(*np.transpose(points), ".", color=_color(i), ms=3)
        panels[i].add_patch(Circle((0, 0), 1, fill=False, color=RULE))
        panels[i].set(title=label, aspect="equal", xlim=(-1.05, 1.05), ylim=(-1.05, 1.05))
    return figure


def _finished_cells(plan: StudyPlan, row: StudyRow) -> list[Cell]:
    """The row's cells that have their numbers."""
    keys = [row.cells[seed] for seed in row.scores]
    return [plan.cells[key] for key in keys]


def _results(plan: StudyPlan, row: StudyRow) -> list[CellResult]:
    """The results of the row's cells, those that are damaged left out."""
    results = [cell.result() for cell in _finished_cells(plan, row)]
    return [result for result in results if result]


KINDS = {
    "bars": bars_figure,
    "sweep": sweep_figure,
    "curve": curve_figure,
    "plane": plane_figure,
    "cosines": cosines_figure,
    "in_batch": in_batch_figure,
    "projection": projection_figure,
}
