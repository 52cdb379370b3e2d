"""The report's figures. Each is a function from arrays to a matplotlib figure, all in one style.

Before is grey and after is blue everywhere, see `page`.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from isotrope.console.plain import escaped
from isotrope.report.page import AFTER, BEFORE, INK, MUTED, PAPER, RULE, SERIES, PageFigure
from isotrope.store.atomic import new_file, write_text
from isotrope.types import Vector

Curve = tuple[Sequence[int], Sequence[float]]  # steps, values

PAPERS = {  # name as the captions give it -> where to read it
    "RankCSE Fig. 5": "https://arxiv.org/abs/2305.16726",
    "DCLR Fig. 1": "https://arxiv.org/abs/2205.00656",
    "Wang and Isola, 2020": "https://arxiv.org/abs/2005.10242",
}
TIME_COLOURS = {"before": BEFORE, "after": AFTER}
UNITS = {"alignment": "alignment (lower: positives closer)", "uniformity": "uniformity (lower: spread wider)"}
BINS = 40  # of a histogram, over the cosines' range
STYLE = {
    "figure.constrained_layout.use": True, "figure.facecolor": PAPER,
    "font.size": 8.5, "text.color": INK, "text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "isotrope",
    "axes.facecolor": PAPER, "axes.edgecolor": MUTED, "axes.labelcolor": MUTED, "axes.linewidth": 0.8,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "axes.xmargin": 0.02, "grid.color": RULE, "grid.linewidth": 0.7, "xtick.color": MUTED, "ytick.color": MUTED,
    "xtick.major.size": 0, "ytick.major.size": 0, "xtick.minor.size": 0, "ytick.minor.size": 0,
    "lines.linewidth": 1.7, "lines.markersize": 4, "legend.frameon": False, "legend.handlelength": 1.2,
    "legend.labelcolor": "linecolor",
}  # fmt: skip


def loss_terms(curves: Mapping[str, Curve]) -> Figure:
    """Loss and its terms over the steps; a logarithmic scale if they fall by more than a factor of ten."""
    figure, axes = new_figure()
    values = np.concatenate([np.asarray(curve[1], float) for curve in curves.values()])
    if values.min() > 0 and values.max() > 10 * values.min():
        _logarithmic(axes)
    _curves(axes, curves, "{:.3g}")
    axes.set(xlabel="step", ylabel="loss")
    return figure


def dev_scores(curves: Mapping[str, Curve], kept: int | None) -> Figure:
    """Dev score over the steps, in points; the first curve selects; the step whose weights were kept is marked."""
    figure, axes = new_figure()
    axes.margins(y=0.25)
    _curves(axes, curves, "{:.2f}", marker="o")
    steps, values = next(iter(curves.values()))
    if kept is not None and kept in steps:
        height = values[list(steps).index(kept)]
        axes.plot([kept], [height], "o", ms=10, mfc="none", mec=INK, mew=1.2)
        side = "right" if steps.index(kept) > len(steps) / 2 else "left"
        place = (-4 if side == "right" else 4, -17)
        axes.annotate(f"kept: step {kept}", (kept, height), place, textcoords="offset points", ha=side, color=INK)
    axes.set(xlabel="step", ylabel="Spearman × 100 on dev pairs")
    return figure


def space_path(
    steps: Sequence[int], alignment: Sequence[float], uniformity: Sequence[float], kept: int | None
) -> Figure:
    """Alignment against uniformity: one point for each evaluation, joined in the order of training."""
    figure, axes = new_figure()
    axes.plot(uniformity, alignment, color=BEFORE, lw=1)
    axes.plot(uniformity, alignment, "o", color=AFTER, ls="none")
    for step, place in {steps[-1]: (6, 6), steps[0]: (6, -12)}.items():
        at = steps.index(step)
        axes.annotate(f"step {step}", (uniformity[at], alignment[at]), place, textcoords="offset points", color=INK)
    if kept is not None and kept in steps:
        at = steps.index(kept)
        axes.plot([uniformity[at]], [alignment[at]], "o", ms=10, mfc="none", mec=INK, mew=1.2, label="kept")
        axes.legend(loc="upper right", labelcolor=INK, handletextpad=0.2)
    axes.margins(0.2)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.set(xlabel=UNITS["uniformity"], ylabel=UNITS["alignment"])
    return figure


def changes(tasks: Sequence[str], difference: Sequence[float], low: Sequence[float], high: Sequence[float]) -> Figure:
    """Change of each task in points with its 95 % interval, the first task on top."""
    figure, axes = new_figure(height=0.9 + 0.26 * len(tasks))
    places = np.arange(len(tasks))[::-1]
    axes.axvline(0, color=MUTED, lw=1)
    axes.hlines(places, low, high, color=AFTER, lw=1.7)
    axes.plot(difference, places, "o", color=AFTER, ms=5)
    axes.set_yticks(places, list(map(escaped, tasks)))
    axes.set_ylim(-0.6, len(tasks) - 0.4)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set(xlabel="change of Spearman × 100, 95 % interval")
    return figure


def histogram(values: Vector, edges: Vector) -> npt.NDArray[np.int64]:
    """How many values (N,) lie in each bin of edges (B + 1,) -> (B,); those outside count in the outermost bins."""
    return np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0]


def cosine_edges(*values: Vector) -> Vector:
    """Edges (BINS + 1,) from the lowest value, at most 0, to 1."""
    low = min(0.0, *(float(v.min()) for v in values if len(v)))
    return np.linspace(max(-1.0, np.floor(10 * low) / 10), 1.0, BINS + 1)


def cosines_by_gold(bands: Sequence[tuple[str, Mapping[str, Vector]]]) -> Figure:
    """Histograms of cosines: a row for each band of gold scores (label, {before, after: (n,)}), lowest at the bottom.

    Heights are shares of the band's pairs, all on one scale. Dots are medians.
    """
    figure, axes = new_figure(height=3.3)
    edges = cosine_edges(*(values for _, times in bands for values in times.values()))
    shares = [
        {time: histogram(values, edges) / max(len(values), 1) for time, values in times.items()} for _, times in bands
    ]
    tallest = max((counts.max() for row in shares for counts in row.values()), default=1.0) or 1.0
    for place, (row, (_, times)) in enumerate(zip(shares, bands, strict=True)):
        for time, counts in row.items():
            heights, label, colour = place + 0.85 * counts / tallest, time if place == 0 else None, TIME_COLOURS[time]
            filled = time == "after"
            if filled:
                axes.stairs(heights, edges, baseline=place, fill=True, color=colour, alpha=0.25)
            axes.stairs(heights, edges, baseline=place, color=colour, lw=1.2, label=label)
            if len(times[time]):
                axes.plot(np.median(times[time]), place, "o", mfc=colour if filled else PAPER, mec=colour)
    sizes = [max((len(values) for values in times.values()), default=0) for _, times in bands]
    labels = [f"{name}\nn = {size:,}" for (name, _), size in zip(bands, sizes, strict=True)]
    axes.set_yticks(range(len(bands)), labels, va="bottom")
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set_ylim(-0.12, len(bands))
    axes.set(xlabel="cosine of the pair", ylabel="gold score")
    add_legend(axes)
    return figure


def in_batch_cosines(cosines: Mapping[str, Vector]) -> Figure:
    """Histogram of the cosines of unrelated sentences, before and after; the mean in the legend."""
    figure, axes = new_figure()
    edges = cosine_edges(*cosines.values())
    for time, values in cosines.items():
        shares = 100 * histogram(values, edges) / max(len(values), 1)
        if time == "after":
            axes.stairs(shares, edges, fill=True, color=TIME_COLOURS[time], alpha=0.25)
        axes.stairs(shares, edges, color=TIME_COLOURS[time], lw=1.5, label=f"{time}: mean {values.mean():.3f}")
    axes.set(xlabel="cosine of two sentences of the corpus", ylabel="% of the pairs")
    add_legend(axes)
    return figure


def spectrum(shares: Mapping[str, Vector], ranks: Mapping[str, float]) -> Figure:
    """Share of the variance along each principal direction, largest first; the effective rank in the legend."""
    figure, axes = new_figure()
    _logarithmic(axes)
    for time, values in shares.items():
        some = 100 * values[values > 1e-7]
        label = f"{time}: effective rank {ranks[time]:.1f}"
        axes.plot(np.arange(1, len(some) + 1), some, color=TIME_COLOURS[time], label=label)
    axes.set(xlabel="principal direction", ylabel="% of the variance")
    add_legend(axes)
    return figure


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
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.01), borderaxespad=0, labelspacing=0.2, ncols=columns)


def _curves(axes: Axes, curves: Mapping[str, Curve], number: str, marker: str = "") -> None:
    """Curves with name and last value at the right end. Labels that would touch are moved apart."""
    for colour, (steps, values) in zip(_colours(len(curves)), curves.values(), strict=True):
        axes.plot(steps, values, color=colour, marker=marker or ("o" if len(steps) == 1 else ""))
    axes.autoscale_view()  # now, not when drawn: the labels' places depend on it
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    to_fraction = axes.transData + axes.transAxes.inverted()
    heights = [float(to_fraction.transform((steps[-1], values[-1]))[1]) for steps, values in curves.values()]
    places = push_apart(heights, 0.08)
    for colour, (name, (steps, values)), place in zip(_colours(len(curves)), curves.items(), places, strict=True):
        axes.annotate(
            f"{escaped(name)} {number.format(values[-1])}",
            (steps[-1], place), (7, 0), xycoords=("data", "axes fraction"),
            textcoords="offset points", color=colour, va="center", annotation_clip=False,
        )  # fmt: skip


def push_apart(heights: Sequence[float], gap: float) -> list[float]:
    """Heights, moved up as little as possible, so that neighbours are at least ``gap`` apart; in the order given."""
    places, last = list(heights), -np.inf
    for i in sorted(range(len(heights)), key=heights.__getitem__):
        last = places[i] = max(heights[i], last + gap)
    return places


def _colours(count: int) -> list[str]:
    return [SERIES[i % len(SERIES)] for i in range(count)]


def style() -> Any:
    """The context in which figures are made and drawn."""
    return matplotlib.rc_context(STYLE)


def svg(figure: Figure) -> str:
    """The figure as an SVG file: the same bytes for the same numbers."""
    sink = io.StringIO()
    figure.savefig(sink, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return sink.getvalue()


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure with its title and caption. ``name`` is the name of its files."""

    name: str
    title: str
    caption: str
    figure: Figure
    source: str = ""  # a key of PAPERS

    def draw(self, folder: Path) -> PageFigure:
        """Write the figure's files -> the figure on the page."""
        text = svg(self.figure)
        write_text(folder / f"{self.name}.svg", text)
        with new_file(folder / f"{self.name}.png") as file:
            self.figure.savefig(file, format="png", dpi=200)
        return PageFigure(self.name, self.title, text, self.caption, self.source, PAPERS.get(self.source, ""))
