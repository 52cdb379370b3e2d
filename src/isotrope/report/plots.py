"""The figures of a page: those that a run has numbers for, with their captions, and their files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from isotrope.cards.verdict import SHORT_NAMES
from isotrope.evaluation.geometry import by_gold_band, effective_rank
from isotrope.report import figures
from isotrope.report.page import PageFigure
from isotrope.report.record import RunRecord
from isotrope.report.space import Space
from isotrope.store.atomic import new_file, write_text

PAPERS = {  # name as the captions give it -> where to read it
    "RankCSE Fig. 5": "https://arxiv.org/abs/2305.16726",
    "DCLR Fig. 1": "https://arxiv.org/abs/2205.00656",
    "Wang and Isola, 2020": "https://arxiv.org/abs/2005.10242",
}


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure with its title and caption. ``name`` is the name of its files."""

    name: str
    title: str
    caption: str
    figure: Figure
    source: str = ""  # a key of PAPERS


def run_plots(record: RunRecord, seen: Mapping[str, Space]) -> Iterator[Plot]:
    """The figures that the run has numbers for."""
    comparison = record.result.get("comparison")
    if comparison and len(comparison["per_task"]) > 1:
        tasks = {SHORT_NAMES.get(task, task): change for task, change in comparison["per_task"].items()} | {
            "average": comparison
        }
        points = [[100 * change[key] for change in tasks.values()] for key in ("difference", "low", "high")]
        words = "Dot: the change. Line: its 95 % interval. If the line does not cross 0, the change is significant."
        yield Plot("changes", "Change on each set", words, figures.changes(list(tasks), *points))
    if losses := record.losses():
        words = "What training makes smaller. Each point is the mean over the steps since the point before."
        yield Plot("loss", "Loss over the steps", words, figures.loss_terms(losses))
    if scores := record.dev_scores():
        words = "How well the model agrees with the scores of the dev pairs. Higher is better. The best step is kept."
        yield Plot("dev", "Dev score over the steps", words, figures.dev_scores(scores, record.kept_step))
    (steps, uniformity), (_, alignment) = record.series("uniformity", "alignment")
    if steps:
        pairs = "dev pairs with a gold score above 4/5 of the highest" if scores else "two dropout views of a sentence"
        words = (
            f"Alignment: the mean squared distance between two texts of the same meaning (here: {pairs}). "
            "Uniformity: how evenly all vectors spread. Lower is better on both. Training trades one for the other. See"
        )
        figure = figures.space_path(steps, alignment, uniformity, record.kept_step)
        yield Plot("path", "Alignment and uniformity over training", words, figure, "Wang and Isola, 2020")
    if record.gold:
        task = "STSBenchmark" if "STSBenchmark" in record.gold else max(record.gold, key=lambda t: len(record.gold[t]))
        cosines = {time: found[task] for time, found in record.cosines.items()}
        words = (
            f"The {len(record.gold[task]):,} pairs of {SHORT_NAMES.get(task, task)} that judge. Pairs with a high gold "
            "score should have a high cosine, so the bands should lie apart. Dots are medians. See"
        )
        figure = figures.cosines_by_gold(by_gold_band(record.gold[task], cosines))
        yield Plot("cosines", "Cosine by gold score", words, figure, "RankCSE Fig. 5")
    if seen:
        sample = f"{len(record.sample)} random sentences of the corpus"
        words = f"Cosines of all pairs of {sample}. They are unrelated, so their cosines should be near 0. See"
        figure = figures.in_batch_cosines({time: space.cosines for time, space in seen.items()})
        yield Plot("in-batch", "In-batch similarity", words, figure, "DCLR Fig. 1")
        shares = {time: space.shares for time, space in seen.items()}
        words = (
            f"How much of the variance of the vectors of {sample} lies along each direction. The effective rank says "
            f"how many directions they use, of at most {max(map(len, shares.values()))}."
        )
        figure = figures.spectrum(shares, {time: effective_rank(values) for time, values in shares.items()})
        yield Plot("spectrum", "Covariance spectrum", words, figure)


def draw_plot(plot: Plot, folder: Path) -> PageFigure:
    """Write the figure's files -> the figure on the page."""
    text = figures.svg(plot.figure)
    write_text(folder / f"{plot.name}.svg", text)
    with new_file(folder / f"{plot.name}.png") as file:
        plot.figure.savefig(file, format="png", dpi=200)
    return PageFigure(plot.name, plot.title, text, plot.caption, plot.source, PAPERS.get(plot.source, ""))
