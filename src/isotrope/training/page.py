"""A run as one self-contained page: folder → figures → HTML."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isotrope.encoder import load
from isotrope.encoder.embed import cut, vectors_of
from isotrope.errors import UserError, needs
from isotrope.evaluation.geometry import by_gold_band, effective_rank
from isotrope.evaluation.verdict import Verdict
from isotrope.report.comparison import SHORT_NAMES, of_run
from isotrope.report.page import Page, PageFigure
from isotrope.report.space import Space, neighbour_tables
from isotrope.report.tables import Table
from isotrope.store.atomic import write_text
from isotrope.store.disk import writing
from isotrope.store.mark import claim
from isotrope.training.folder import RunRecord

if TYPE_CHECKING:
    from isotrope.report.figures import Plot

FEWEST_SENTENCES = 10  # fewer have no distribution


def write_report(
    run: str | Path,
    output: str | Path | None = None,
    *,
    verdict: Verdict | None = None,
    lead: Sequence[str] = (),
    tables: Sequence[Table] = (),
    figures: Sequence[PageFigure] = (),
) -> Path:
    """Write the report of a run, finished or not: one HTML file without scripts or anything from outside.

    Args:
        run: the folder that ``isotrope train`` wrote.
        output: the .html file; None takes ``run/report.html``. Its figures lie beside it as .svg and .png, in a folder
            of the same name (``run/report/``).
        verdict: instead of the one on the training.
        lead: sentences above all others.
        tables: shown before all others.
        figures: shown before all others.

    Returns:
        The path of the page.

    Raises:
        UserError: the folder holds no run or a damaged one; the page cannot be written; the folder for its figures
            holds something else.
    """
    record = RunRecord.read(Path(run))
    page = Path(output) if output is not None else record.folder / "report.html"
    if page.suffix.lower() not in (".html", ".htm") or page.is_dir():
        raise UserError(f"{page} is no .html file", "choose another name that ends with .html")
    with writing(page.parent, again="run the same command again"):
        claim(page.with_suffix(""), "report")
        seen, missing = spaces(record)
        drawn, why = _figures(record, seen, page.with_suffix(""))
        comparison = record.result.get("comparison")
        shown = Page(
            title=record.folder.resolve().name,
            lead=[*lead, record.preset.description or record.method, *_unfinished(record)],
            verdict=verdict or (Verdict.from_record(record.result["verdict"]) if record.result else None),
            tables=[*tables, *([of_run(comparison)] if comparison else []), _facts(record)],
            figures=[*figures, *drawn],
            missing=[*why, *_missing(record, missing)],
            details=[
                *neighbour_tables(record.sample, seen),
                Table("Settings", ["key", "value", "source"], record.settings(), words=3),
                Table("Environment", ["", ""], _environment(record.environment), words=2),
            ],
        )
        write_text(page, shown.html())
    return page


def _unfinished(record: RunRecord) -> list[str]:
    if record.result:
        return []
    return ["This run is unfinished. Go on with the same command; until then there is no new model and no verdict."]


def _figures(record: RunRecord, seen: Mapping[str, Space], folder: Path) -> tuple[list[PageFigure], list[str]]:
    """The figures, drawn; and why there are none."""
    try:
        figures = needs("report", "isotrope.report.figures")
    except UserError as error:
        return [], [f"Figures: {error}."]
    with figures.style():
        return [plot.draw(folder) for plot in _plots(record, seen)], []


def spaces(record: RunRecord) -> tuple[dict[str, Space], list[str]]:
    """Encode the run's sample with both models -> before, after -> Space; and why one is missing.

    Sentences are cut at the training length: this bounds the cost and matches what was trained.
    """
    if len(record.sample) < FEWEST_SENTENCES:
        return {}, ["the run kept no sample of its corpus (sample.txt)"]
    models: dict[str, str | Path] = {"before": record.preset.encoder.backbone, "after": record.folder / "model"}
    seen: dict[str, Space] = {}
    missing = []
    for time, model in models.items():
        if time == "after" and not record.result:
            missing.append("the run is unfinished, so there is no new model yet")
            continue
        try:
            encoder = load(model)
            with cut(encoder, record.preset.train.max_length):
                seen[time] = Space.of(vectors_of(encoder, record.sample))
        except UserError as error:
            missing.append(f"the {'backbone' if time == 'before' else 'new model'} cannot be used any more ({error})")
    return seen, missing


def _plots(record: RunRecord, seen: Mapping[str, Space]) -> "Iterator[Plot]":
    """The figures that the run has numbers for."""
    from isotrope.report import figures
    from isotrope.report.figures import Plot

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


def _facts(record: RunRecord) -> Table:
    result, preset = record.result, record.preset
    lora = preset.encoder.lora
    facts = [
        ("preset", record.method),
        ("backbone", f"{preset.encoder.backbone} ({preset.encoder.pooling or 'its own pooling'})"),
        *([("student", preset.encoder.student)] if preset.encoder.student else []),
        *([("trained", f"an adapter of rank {lora.rank}, {lora.save}")] if lora else []),
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
