"""A run as one self-contained page: folder → figures → HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from isotrope.cards.verdict import SHORT_NAMES, signed
from isotrope.errors import UserError
from isotrope.evaluation.gold_bands import by_gold_band
from isotrope.evaluation.spectrum import effective_rank
from isotrope.report import figures
from isotrope.report.comparison import of_run
from isotrope.report.page import Page, PageFigure, PageVerdict
from isotrope.report.record import RunRecord
from isotrope.report.space import Space, neighbour_tables, spaces
from isotrope.report.tables import Table
from isotrope.store.atomic import new_file, write_text
from isotrope.store.disk import writing
from isotrope.store.mark import claim

SIGNS = {"better": "▲", "worse": "▼", "not significant": "◆", "not judged": "○", "unfinished": "…"}
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


def write_report(run: str | Path, output: str | Path | None = None) -> Path:
    """Write the report of a run, finished or not: one HTML file without scripts or anything from outside.

    Args:
        run: the folder that ``isotrope train`` wrote.
        output: the .html file; None takes ``run/report.html``. Its figures lie beside it as .svg and .png, in a folder
            of the same name (``run/report/``).

    Returns:
        The path of the page.

    Raises:
        UserError: the folder holds no run or a damaged one; the page cannot be written; the folder for its figures
            holds something else.
    """
    record = RunRecord.read(Path(run))
    page = Path(output) if output is not None else record.folder / "report.html"
    folder = page.with_suffix("")
    if page.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{page} is not an .html file", "choose a name that ends with .html")
    if page.is_dir():
        raise UserError(f"{page} is a folder", "choose another --output")
    with writing(page.parent, again="run the same command again"), figures.style():
        claim(folder, "report")
        seen, missing = spaces(record)
        plots = list(_plots(record, seen))
        drawn = [_drawn(plot, folder) for plot in plots]
        write_text(page, _page(record, seen, missing, drawn).html())
    return page


def _plots(record: RunRecord, seen: Mapping[str, Space]) -> Iterator[Plot]:
    """The figures that the run has numbers for."""
    comparison = record.result.get("comparison")
    if comparison and len(comparison["per_task"]) > 1:
        tasks = {SHORT_NAMES.get(task, task): change for task, change in comparison["per_task"].items()} | {
            "average": comparison
        }
        points = [[100 * change[key] for change in tasks.values()] for key in ("difference", "low", "high")]
        words = "Paired bootstrap over the pairs: if the line does not cross 0, the change is significant."
        yield Plot("changes", "Change on each set", words, figures.changes(list(tasks), *points))
    if losses := record.losses():
        words = "Each point is the mean over the steps since the point before."
        yield Plot("loss", "Loss over the steps", words, figures.loss_terms(losses))
    if scores := record.dev_scores():
        words = "The weights of the best step are kept; dev pairs never judge the result."
        yield Plot("dev", "Dev score over the steps", words, figures.dev_scores(scores, record.kept_step))
    (steps, uniformity), (_, alignment) = record.series("uniformity", "alignment")
    if steps:
        pairs = "dev pairs with a gold score above 4/5 of the highest" if scores else "two dropout views of a sentence"
        words = (
            f"Positives: {pairs}. Uniformity over all sentences of the same sample. "
            "Lower is better on both; training trades one for the other."
        )
        figure = figures.space_path(steps, alignment, uniformity, record.kept_step)
        yield Plot("path", "Alignment and uniformity over training", words, figure, "Wang and Isola, 2020")
    if record.gold:
        task = "STSBenchmark" if "STSBenchmark" in record.gold else max(record.gold, key=lambda t: len(record.gold[t]))
        cosines = {time: found[task] for time, found in record.cosines.items()}
        words = (
            f"The {len(record.gold[task]):,} judging pairs of {SHORT_NAMES.get(task, task)}; dots are medians. "
            "A good model separates the bands, in order; as"
        )
        figure = figures.cosines_by_gold(by_gold_band(record.gold[task], cosines))
        yield Plot("cosines", "Cosine by gold score", words, figure, "RankCSE Fig. 5")
    if seen:
        sample = f"{len(record.sample)} random sentences of the corpus"
        words = f"All pairs of {sample}: unrelated, so without a common direction their cosines are near 0; as"
        figure = figures.in_batch_cosines({time: space.cosines for time, space in seen.items()})
        yield Plot("in-batch", "In-batch similarity", words, figure, "DCLR Fig. 1")
        shares = {time: space.shares for time, space in seen.items()}
        words = (
            f"Eigenvalues of the covariance of unit vectors of {sample}. Effective rank: how many equal directions "
            f"would give the same spread, of at most {max(map(len, shares.values()))}."
        )
        figure = figures.spectrum(shares, {time: effective_rank(values) for time, values in shares.items()})
        yield Plot("spectrum", "Covariance spectrum", words, figure)


def _drawn(plot: Plot, folder: Path) -> PageFigure:
    """Write the figure's files -> the figure on the page."""
    text = figures.svg(plot.figure)
    write_text(folder / f"{plot.name}.svg", text)
    with new_file(folder / f"{plot.name}.png") as file:
        plot.figure.savefig(file, format="png", dpi=200)
    return PageFigure(plot.name, plot.title, text, plot.caption, plot.source, PAPERS.get(plot.source, ""))


def _page(record: RunRecord, seen: dict[str, Space], missing: list[str], figures: list[PageFigure]) -> Page:
    comparison = record.result.get("comparison")
    return Page(
        title=record.folder.resolve().name,
        lead=[record.preset.description or record.method],
        verdict=_verdict(record),
        tables=[*([of_run(comparison)] if comparison else []), _facts(record)],
        figures=figures,
        missing=_missing(record, missing),
        details=[
            *neighbour_tables(record.sample, seen),
            Table("Settings", ["key", "value", "source"], record.settings(), words=3),
            Table("Environment", ["", ""], _environment(record.environment), words=2),
        ],
    )


def _verdict(record: RunRecord) -> PageVerdict:
    if not record.result:
        advice = "go on with the same command and --resume; until then there is no new model and no verdict"
        return PageVerdict("unfinished", SIGNS["unfinished"], "", advice)
    word, whole, change = record.result["verdict"], record.result.get("comparison"), ""
    if whole:
        sets = len(whole["per_task"])
        change = (
            f"{signed(whole['difference'])} points{f' on the average of {sets} sets' if sets > 1 else ''} "
            f"(95 %: {signed(whole['low'])} … {signed(whole['high'])}, p = {whole['p']:.3g}, paired bootstrap)"
        )
    return PageVerdict(word, SIGNS.get(word, ""), change, record.result["advice"])


def _facts(record: RunRecord) -> Table:
    result, preset = record.result, record.preset
    facts = [
        ("preset", record.method),
        ("backbone", f"{preset.encoder.backbone} ({preset.encoder.pooling or 'its own pooling'})"),
    ]
    if result:
        corpus, selection = result["corpus"], result["selection"]
        facts.append(("corpus", f"{corpus['used']:,} of {corpus['rows']:,} sentences"))
        if selection["best_step"] is not None:
            chosen = f"step {selection['best_step']} of {selection['steps']}, {100 * selection['best_score']:.2f} on "
            facts.append(("kept", chosen + ", ".join(selection["sets"])))
        else:
            facts.append(("kept", f"the last step, {selection['steps']}: no dev pairs"))
        facts.append(("training time", f"{_duration(selection['seconds'])} (since it was last started)"))
    else:
        used = record.identity.get("sentences")
        facts.append(("corpus", f"{used:,} sentences" if used else "all sentences"))
        facts.append(("last record", f"step {max((r['step'] for r in record.metrics), default=0)}"))
    facts.append(("seed", str(record.identity.get("seed", ""))))
    return Table("The run", ["", ""], facts, words=2)


def _missing(record: RunRecord, reasons: list[str]) -> list[str]:
    """What the page leaves out, and why."""
    lines = [f"In-batch similarity, spectrum, neighbours, in part or whole: {reason}." for reason in reasons]
    if not record.cosines:
        lines.append("Before and after, cosine by gold score: no labelled pairs judged this run.")
    if not any("score" in entry for entry in record.metrics):
        lines.append("Dev score: no evaluation on dev pairs so far.")
    return lines


def _environment(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    packages = found.get("packages", {})
    plain = {key: value for key, value in found.items() if key != "packages"}
    shown = [(key, ", ".join(map(str, value)) or "none") if isinstance(value, list) else (key, str(value))
             for key, value in plain.items()]  # fmt: skip
    return [*shown, *((name, str(version or "not installed")) for name, version in packages.items())]


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
