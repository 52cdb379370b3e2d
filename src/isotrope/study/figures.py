"""A study's figures, as in the papers, from the finished cells. Each kind of figure is one
function.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.ticker import FuncFormatter, NullLocator

from isotrope.evaluation.geometry import by_gold_band
from isotrope.report.figures import UNITS, add_legend, new_figure, style, svg
from isotrope.report.page import INK, RULE, SERIES
from isotrope.store.files import Record, write_text, writing
from isotrope.study.cell import Cell
from isotrope.study.columns import means
from isotrope.study.plan import StudyPlan
from isotrope.study.spec import FigureSettings

LOGGED = ["dev", "alignment", "uniformity"]  # at every evaluation of a run


def draw(plan: StudyPlan, record: Record, folder: Path) -> dict[str, str]:
    """Draw every figure that has numbers -> title: file name."""
    drawn: dict[str, str] = {}
    for name, wanted in plan.spec.figures.items():
        rows = [
            row
            for row in record["rows"]
            if not wanted.rows or {row["label"], row["base"]} & set(wanted.rows)
        ]
        rows = [row for row in rows if row["scores"] and row["kind"] != "teacher"]
        with style(), writing(folder):
            figure = KINDS[wanted.kind](plan, rows, wanted)
            if rows and any(axes.has_data() for axes in figure.axes):
                if any(figure.axes[0].get_legend_handles_labels()):
                    add_legend(figure.axes[0], 2)
                write_text(folder / f"{name}.svg", svg(figure))
                drawn[wanted.title + (f" (after {wanted.source})" if wanted.source else "")] = (
                    f"{name}.svg"
                )
    return drawn


def bars_figure(plan: StudyPlan, rows: Sequence[Record], wanted: FigureSettings) -> Figure:
    """Means of the columns with one standard deviation; one group for each row."""
    figure, axes = new_figure(0.9 + 0.2 * len(rows) * len(wanted.columns), 5.4)
    for i, column in enumerate(wanted.columns):
        found = [means(row).get(column, (np.nan, None)) for row in rows]
        places = np.arange(len(rows))[::-1] - 0.8 * (i + 0.5) / len(wanted.columns) + 0.4
        values, spread = [mean for mean, _ in found], [sd or 0 for _, sd in found]
        label = column if len(wanted.columns) > 1 else ""
        axes.errorbar(
            values, places, xerr=spread, fmt="o", color=SERIES[i % len(SERIES)], label=label
        )
    axes.set_yticks(np.arange(len(rows))[::-1], [row["label"] for row in rows])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set(xlabel="mean ± standard deviation over seeds", ylim=(-0.6, len(rows) - 0.4))
    return figure


def sweep_figure(plan: StudyPlan, rows: Sequence[Record], wanted: FigureSettings) -> Figure:
    """Means over the values of one key. A line for each swept row, column, and combination of other
    keys' values.
    """
    lines: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        if wanted.x not in row["at"]:
            continue
        others = [
            f"{key.rsplit('.', 1)[-1]} = {value}"
            for key, value in row["at"].items()
            if key != wanted.x
        ]
        for column in wanted.columns:
            if column in (found := means(row)):
                name = ", ".join(
                    [row["base"], *others, *([column] if len(wanted.columns) > 1 else [])]
                )
                lines.setdefault(name, []).append(
                    (float(row["at"][wanted.x]), found[column][0], found[column][1] or 0)
                )
    figure, axes = new_figure(2.9, 5.4)
    for i, (name, points) in enumerate(lines.items()):
        x, y, spread = map(list, zip(*sorted(points), strict=True))
        label = name if len(lines) > 1 else ""
        axes.errorbar(x, y, yerr=spread, marker="o", color=SERIES[i % len(SERIES)], label=label)
    places = sorted({x for points in lines.values() for x, _, _ in points})
    if places and places[-1] > 20 * places[0] > 0:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if len(places) < 10:
        axes.set_xticks(places, [f"{x:g}" for x in places])
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel=wanted.x, ylabel=", ".join(wanted.columns))
    return figure


def curve_figure(plan: StudyPlan, rows: Sequence[Record], wanted: FigureSettings) -> Figure:
    """What was logged at every evaluation (alignment, uniformity, dev), the mean over seeds, over
    the steps.
    """
    columns = [column for column in LOGGED if column in wanted.columns] or LOGGED
    figure = Figure(figsize=(4.2 * len(columns), 2.9))
    for place, column in enumerate(columns):
        axes = figure.add_subplot(1, len(columns), place + 1)
        name, scale = ("score", 100) if column == "dev" else (column, 1)
        for i, row in enumerate(rows):
            metrics = [cell.metrics() for cell in _finished(plan, row)]
            logged = [
                {one["step"]: scale * one[name] for one in records if name in one}
                for records in metrics
            ]
            logged = [one for one in logged if one]
            if steps := sorted(set.intersection(*map(set, logged))) if logged else []:
                values = [np.mean([one[step] for one in logged]) for step in steps]
                marker = "o" if len(steps) < 10 else ""
                axes.plot(
                    steps, values, color=SERIES[i % len(SERIES)], label=row["label"], marker=marker
                )
        axes.set(xlabel="step", ylabel=UNITS.get(column, column))
    return figure


def plane_figure(plan: StudyPlan, rows: Sequence[Record], wanted: FigureSettings) -> Figure:
    """Alignment against uniformity: a dot for each row, with its name and its score in the first
    column.
    """
    found = {row["label"]: means(row) for row in rows}
    found = {
        label: own for label, own in found.items() if "alignment" in own and "uniformity" in own
    }
    figure, axes = new_figure(2.9, 5.4)
    for i, (label, own) in enumerate(found.items()):
        at = own["uniformity"][0], own["alignment"][0]
        score = f" {own[wanted.columns[0]][0]:.2f}" if wanted.columns[0] in own else ""
        axes.plot(*at, "o", color=SERIES[i % len(SERIES)])
        axes.annotate(
            label + score, at, (6, 4), textcoords="offset points", color=SERIES[i % len(SERIES)]
        )
    axes.margins(0.25)
    axes.set(xlabel=UNITS["uniformity"], ylabel=UNITS["alignment"])
    return figure


def cosines_figure(plan: StudyPlan, rows: Sequence[Record], wanted: FigureSettings) -> Figure:
    """Cosines of test pairs by bands of their gold score, all seeds together: medians, and the
    middle 80 %.
    """
    figure, axes = new_figure(3.3, 5.4)
    labels: list[str] = []
    for i, row in enumerate(rows):
        sets = [cell.cosines() for cell in _finished(plan, row)]
        chosen = [one.get("STSBenchmark") or next(iter(one.values())) for one in sets if one]
        if not chosen:
            continue
        bands = by_gold_band(
            np.concatenate([g for g, _ in chosen]), {"": np.concatenate([c for _, c in chosen])}
        )
        labels = [label for label, _ in bands]
        for place, (_, values) in enumerate(bands):
            if len(values[""]):
                low, middle, high = np.quantile(values[""], [0.1, 0.5, 0.9])
                y = place + 0.7 * (i + 0.5) / len(rows)
                axes.hlines(
                    y,
                    low,
                    high,
                    color=SERIES[i % len(SERIES)],
                    label=row["label"] if place == 0 else "",
                )
                axes.plot(middle, y, "o", color=SERIES[i % len(SERIES)])
    axes.set_yticks(np.arange(len(labels)) + 0.35, labels)
    axes.set(xlabel="cosine of the pair", ylabel="gold score")
    return figure


def in_batch_figure(plan: StudyPlan, rows: Sequence[Record], wanted: FigureSettings) -> Figure:
    """Cosines of unrelated sentences of the corpus: a line for each row, all seeds together."""
    figure, axes = new_figure(2.9, 5.4)
    for i, row in enumerate(rows):
        counts = [
            record.get("in_batch") for cell in _finished(plan, row) if (record := cell.record())
        ]
        if known := [one for one in counts if one]:
            total = np.sum(known, axis=0)
            edges = np.linspace(-1, 1, len(total) + 1)
            axes.stairs(
                100 * total / total.sum(),
                edges,
                color=SERIES[i % len(SERIES)],
                label=row["label"],
                lw=1.5,
            )
    axes.set(xlabel="cosine of two sentences of the corpus", ylabel="% of the pairs")
    return figure


def projection_figure(plan: StudyPlan, rows: Sequence[Record], wanted: FigureSettings) -> Figure:
    """Sentences of the first seed of each row, projected (`isotrope.study.run_cell`), within the
    unit circle.
    """
    found = {row["label"]: cell.record() for row in rows for cell in _finished(plan, row)[:1]}
    planes = {
        label: record["projection"]
        for label, record in found.items()
        if record and record.get("projection")
    }
    figure = Figure(figsize=(2.6 * max(1, len(planes)), 2.9))
    for place, (label, points) in enumerate(planes.items()):
        axes = figure.add_subplot(1, len(planes), place + 1)
        axes.plot(*np.transpose(points), ".", color=SERIES[place % len(SERIES)], ms=3)
        axes.add_patch(Circle((0, 0), 1, fill=False, color=RULE))
        axes.set(title=label, aspect="equal", xlim=(-1.05, 1.05), ylim=(-1.05, 1.05))
    return figure


def _finished(plan: StudyPlan, row: Record) -> list[Cell]:
    """The row's cells that have their numbers."""
    return [plan.cells[key] for seed, key in row["cells"].items() if seed in row["scores"]]


KINDS = {
    "bars": bars_figure,
    "sweep": sweep_figure,
    "curve": curve_figure,
    "plane": plane_figure,
    "cosines": cosines_figure,
    "in_batch": in_batch_figure,
    "projection": projection_figure,
}
