"""A study's figures, as in the papers, from the finished cells. Each kind of figure is one
function.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.ticker import FuncFormatter, NullLocator

from isotrope.evaluation.geometry import gold_bands
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


Rows = Sequence[StudyRow]
Point = tuple[float, float, float]  # x, y and standard deviation


def draw(plan: StudyPlan, record: StudyRecord, folder: Path) -> dict[str, str]:
    """Draw every figure that has numbers -> title: file name."""
    files = {}
    for name, settings in plan.spec.figures.items():
        rows = _rows_of(settings, record)
        if not rows:
            continue
        file = f"{name}.svg"
        with style(), writing(folder):
            figure = KINDS[settings.kind](plan, rows, settings)
            if not any(axes.has_data() for axes in figure.axes):
                continue
            if any(figure.axes[0].get_legend_handles_labels()):
                add_legend(figure.axes[0], 2)
            write_text(folder / file, svg(figure))
        title = settings.title
        if settings.source:
            title += f" (after {settings.source})"
        files[title] = file
    return files


def _rows_of(settings: FigureSettings, record: StudyRecord) -> list[StudyRow]:
    """The measured rows that a figure names; all if it names none. Teachers are no rows."""
    rows = [row for row in record.rows if row.scores and row.kind != "teacher"]
    names = settings.rows
    if not names:
        return rows
    return [row for row in rows if row.label in names or row.base in names]


def _panels(count: int, width: float) -> tuple[Figure, Sequence[Axes]]:
    """A figure of axes beside each other, each so many inches wide."""
    figure = Figure(figsize=(width * count, 2.9))
    return figure, figure.subplots(1, count, squeeze=False)[0]


def _color(number: int) -> str:
    return SERIES[number % len(SERIES)]


def bars_figure(plan: StudyPlan, rows: Rows, settings: FigureSettings) -> Figure:
    """Means of the columns with one standard deviation; one group for each row."""
    columns = settings.columns
    height = 0.9 + 0.2 * len(rows) * len(columns)
    figure, axes = new_figure(height, 5.4)
    from_top = np.arange(len(rows))[::-1]
    not_measured = Mean(np.nan, None, 0)
    for i, column in enumerate(columns):
        means = [row.mean(column) or not_measured for row in rows]
        values = [mean.value for mean in means]
        deviations = [mean.sd or 0 for mean in means]
        within_group = 0.8 * (i + 0.5) / len(columns) - 0.4
        label = column if len(columns) > 1 else ""
        axes.errorbar(
            values,
            from_top - within_group,
            xerr=deviations,
            fmt="o",
            color=_color(i),
            label=label,
        )
    axes.set_yticks(from_top, [row.label for row in rows])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set_xlabel("mean ± standard deviation over seeds")
    axes.set_ylim(-0.6, len(rows) - 0.4)
    return figure


def sweep_figure(plan: StudyPlan, rows: Rows, settings: FigureSettings) -> Figure:
    """Mean scores with their standard deviations, plotted against the values of one setting. A
    line for each swept row, column, and combination of the other settings.
    """
    lines = _swept_lines(rows, settings)
    figure, axes = new_figure(2.9, 5.4)
    swept: set[float] = set()
    for i, (name, points) in enumerate(lines.items()):
        x, y, sd = zip(*sorted(points), strict=True)
        label = name if len(lines) > 1 else ""
        axes.errorbar(x, y, yerr=sd, marker="o", color=_color(i), label=label)
        swept.update(x)
    _scale_x(axes, sorted(swept))
    axes.set_xlabel(settings.x)
    axes.set_ylabel(", ".join(settings.columns))
    return figure


def _swept_lines(rows: Rows, settings: FigureSettings) -> dict[str, list[Point]]:
    """Name of each line -> its points."""
    lines = defaultdict(list)
    for row in rows:
        if settings.x not in row.at:
            continue
        x = float(row.at[settings.x])
        name = row.base
        for key, value in row.at.items():
            if key != settings.x:
                last_word = key.rsplit(".", 1)[-1]
                name += f", {last_word} = {value}"
        for column in settings.columns:
            line = name
            if len(settings.columns) > 1:
                line += f", {column}"
            mean = row.mean(column)
            if mean:
                point = (x, mean.value, mean.sd or 0.0)
                lines[line].append(point)
    return lines


def _scale_x(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic axis for values over more than one order of magnitude; a tick at each of
    few.
    """
    if values and values[-1] > 20 * values[0] > 0:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if len(values) < 10:
        labels = [f"{value:g}" for value in values]
        axes.set_xticks(values, labels)
        axes.xaxis.set_minor_locator(NullLocator())


def curve_figure(plan: StudyPlan, rows: Rows, settings: FigureSettings) -> Figure:
    """What was logged at every evaluation (alignment, uniformity), the mean over seeds, over the
    steps.
    """
    figure, panels = _panels(len(settings.columns), 4.2)
    for axes, column in zip(panels, settings.columns, strict=True):
        for i, row in enumerate(rows):
            curve = _mean_curve(plan, row, column)
            if curve.empty:
                continue
            axes.plot(
                curve.index,
                curve,
                color=_color(i),
                label=row.label,
                marker="o" if len(curve) < 10 else "",
            )
        axes.set_xlabel("step")
        axes.set_ylabel(UNITS.get(column, column))
    return figure


def _mean_curve(plan: StudyPlan, row: StudyRow, column: str) -> "pd.Series[float]":
    """The mean over the seeds, by the steps that every seed has logged."""
    curves = []
    for cell in _finished_cells(plan, row):
        logged = [record for record in cell.metrics() if column in record]
        if logged:
            curves.append({record["step"]: record[column] for record in logged})
    common = pd.DataFrame(curves).dropna(axis=1)
    return common.mean().sort_index()


def plane_figure(plan: StudyPlan, rows: Rows, settings: FigureSettings) -> Figure:
    """Alignment against uniformity: a dot for each row, with its name and its score in the first
    column.
    """
    figure, axes = new_figure(2.9, 5.4)
    colors = cycle(SERIES)
    for row in rows:
        uniformity = row.mean("uniformity")
        alignment = row.mean("alignment")
        if not alignment or not uniformity:
            continue
        name = row.label
        score = row.mean(settings.columns[0])
        if score:
            name += f" {score.value:.2f}"
        point = (uniformity.value, alignment.value)
        color = next(colors)
        axes.plot(*point, "o", color=color)
        axes.annotate(name, point, (6, 4), textcoords="offset points", color=color)
    axes.margins(0.25)
    axes.set_xlabel(UNITS["uniformity"])
    axes.set_ylabel(UNITS["alignment"])
    return figure


def cosines_figure(plan: StudyPlan, rows: Rows, settings: FigureSettings) -> Figure:
    """Cosines of test pairs by bands of their gold score, all seeds together: medians, and the
    middle 80 %.
    """
    figure, axes = new_figure(3.3, 5.4)
    labels: list[str] = []
    for i, row in enumerate(rows):
        color = _color(i)
        bands = _cosine_bands(plan, row)
        labels = [*bands] or labels
        within_band = 0.7 * (i + 0.5) / len(rows)
        for band, cosines in enumerate(bands.values()):
            if not len(cosines):
                continue
            low, middle, high = np.quantile(cosines, [0.1, 0.5, 0.9])
            y = band + within_band
            label = row.label if band == 0 else ""
            axes.hlines(y, low, high, color=color, label=label)
            axes.plot(middle, y, "o", color=color)
    middles = np.arange(len(labels)) + 0.35
    axes.set_yticks(middles, labels)
    axes.set_xlabel("cosine of the pair")
    axes.set_ylabel("gold score")
    return figure


def _cosine_bands(plan: StudyPlan, row: StudyRow) -> dict[str, Vector]:
    """Band of the gold score -> cosines (n,) of STS-B's pairs, or of the first test, of all
    seeds.
    """
    judged = []
    for cell in _finished_cells(plan, row):
        tests = cell.cosines()
        if tests:
            first = next(iter(tests.values()))
            judged.append(tests.get("STSBenchmark", first))
    if not judged:
        return {}
    gold, cosines = map(np.concatenate, zip(*judged, strict=True))
    return {label: cosines[places] for label, places in gold_bands(gold)}


def in_batch_figure(plan: StudyPlan, rows: Rows, settings: FigureSettings) -> Figure:
    """Cosines of unrelated sentences of the corpus: a line for each row, all seeds together."""
    figure, axes = new_figure(2.9, 5.4)
    for i, row in enumerate(rows):
        results = _results(plan, row)
        counts = [result.in_batch for result in results if result.in_batch]
        if not counts:
            continue
        total = np.sum(counts, axis=0)  # (bins,)
        edges = np.linspace(-1, 1, len(total) + 1)
        percent = 100 * total / total.sum()
        axes.stairs(
            percent,
            edges,
            color=_color(i),
            label=row.label,
            lw=1.5,
        )
    axes.set_xlabel("cosine of two sentences of the corpus")
    axes.set_ylabel("% of the pairs")
    return figure


def projection_figure(plan: StudyPlan, rows: Rows, settings: FigureSettings) -> Figure:
    """Sentences of the first seed of each row, projected (`isotrope.study.measure`), within the
    unit circle.
    """
    projections = {}
    for row in rows:
        results = _results(plan, row)
        if results and results[0].projection:
            projections[row.label] = results[0].projection
    figure, panels = _panels(max(1, len(projections)), 2.6)
    for i, (label, points) in enumerate(projections.items()):
        axes = panels[i]
        x, y = np.transpose(points)
        axes.plot(x, y, ".", color=_color(i), ms=3)
        axes.add_patch(Circle((0, 0), 1, fill=False, color=RULE))
        axes.set_title(label)
        axes.set_aspect("equal")
        axes.set_xlim(-1.05, 1.05)
        axes.set_ylim(-1.05, 1.05)
    return figure


def _finished_cells(plan: StudyPlan, row: StudyRow) -> list[Cell]:
    """The row's cells that have their numbers."""
    return [plan.cells[row.cells[seed]] for seed in row.scores]


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
