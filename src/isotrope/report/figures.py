"""The figures of a run's page. Each is a function from arrays to a matplotlib figure, in one style.

Before is grey and after is blue everywhere, see `page`.
"""

import io
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import cycle

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from isotrope.console.plain import escaped
from isotrope.report.page import AFTER, BEFORE, INK, MUTED, PAPER, RULE, SERIES
from isotrope.types import Vector

Curve = tuple[Sequence[int], Sequence[float]]  # steps, values

TIME_COLOURS = {"before": BEFORE, "after": AFTER}
TIME_OFFSETS = {"before": 0.18, "after": -0.18}  # of the boxes, within a row
STYLE = {
    "figure.constrained_layout.use": True,
    "figure.facecolor": PAPER,
    "font.size": 8.5,
    "text.color": INK,
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "isotrope",
    "axes.facecolor": PAPER,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.xmargin": 0.02,
    "grid.color": RULE,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "lines.linewidth": 1.7,
    "lines.markersize": 4,
    "legend.frameon": False,
    "legend.handlelength": 1.2,
    "legend.labelcolor": "linecolor",
}


def loss_terms(curves: Mapping[str, Curve]) -> Figure:
    """Loss and its terms over the steps; a logarithmic scale if they fall by more than a factor of
    ten.
    """
    figure, axes = new_figure()
    values = np.concatenate([losses for _, losses in curves.values()])
    if 0 < 10 * values.min() < values.max():
        _logarithmic(axes)
    _curves(axes, curves, "{:.3g}")
    axes.set(xlabel="step", ylabel="loss")
    return figure


def dev_scores(curves: Mapping[str, Curve], kept: int | None) -> Figure:
    """Dev score over the steps, in points; the first curve selects; the step whose weights were
    kept is marked.
    """
    figure, axes = new_figure()
    axes.margins(y=0.25)
    _curves(axes, curves, "{:.2f}", marker="o")
    steps, values = next(iter(curves.values()))
    if kept is not None and kept in steps:
        value = values[steps.index(kept)]
        label = f"kept: step {kept}"
        axes.plot([kept], [value], "o", ms=10, mfc="none", mec=INK, mew=1.2, label=label)
        add_legend(axes)
    axes.set(xlabel="step", ylabel="Spearman × 100 on dev pairs")
    return figure


def cosines_by_gold(bands: Sequence[tuple[str, Mapping[str, Vector]]]) -> Figure:
    """Boxes of cosines: a row for each band of gold scores (label, {before, after: (n,)}), lowest
    at the bottom.

    A box holds the middle half of the pairs, its line is the median, and each whisker is at most
    one and a half boxes long.
    """
    figure, axes = new_figure(height=3.3)
    for time, offset in TIME_OFFSETS.items():
        cosines = [times[time] for _, times in bands if time in times]
        if cosines:
            _boxes(axes, cosines, offset, time)
    labels = []
    for name, times in bands:
        size = max((len(values) for values in times.values()), default=0)
        labels.append(f"{name}\nn = {size:,}")
    axes.set_yticks(range(len(bands)), labels)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set(xlabel="cosine of the pair", ylabel="gold score")
    add_legend(axes)
    return figure


def _boxes(axes: Axes, cosines: Sequence[Vector], offset: float, time: str) -> None:
    """The boxes of one model, a row for each set of cosines, at some height within the row."""
    colour = TIME_COLOURS[time]
    axes.boxplot(
        cosines,
        positions=np.arange(len(cosines)) + offset,
        orientation="horizontal",
        widths=0.3,
        showfliers=False,
        patch_artist=True,
        boxprops={"color": colour, "facecolor": colour},
        medianprops={"color": PAPER},
        whiskerprops={"color": colour},
        capprops={"color": colour},
        label=time,
    )


def new_figure(height: float = 2.7, width: float = 4.2) -> tuple[Figure, Axes]:
    """An empty figure, in inches."""
    figure = Figure(figsize=(width, height))
    return figure, figure.add_subplot()


def _logarithmic(axes: Axes) -> None:
    """A logarithmic y axis with plain numbers."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def add_legend(axes: Axes, columns: int = 1) -> None:
    """The legend, above the axes."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.01),
        borderaxespad=0,
        labelspacing=0.2,
        ncols=columns,
    )


def _curves(axes: Axes, curves: Mapping[str, Curve], number: str, marker: str = "") -> None:
    """Curves whose names in the legend have their last values."""
    for colour, (name, (steps, values)) in zip(cycle(SERIES), curves.items(), strict=False):
        label = f"{escaped(name)} {number.format(values[-1])}"
        is_point = len(steps) == 1
        axes.plot(steps, values, color=colour, marker="o" if is_point else marker, label=label)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    add_legend(axes)


def style() -> AbstractContextManager[None]:
    """The context in which figures are made and drawn."""
    return matplotlib.rc_context(STYLE)


def svg(figure: Figure) -> str:
    """The figure as an SVG file: the same bytes for the same numbers."""
    sink = io.StringIO()
    no_metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
    figure.savefig(sink, format="svg", metadata=no_metadata)
    return sink.getvalue()
