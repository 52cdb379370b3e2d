"""A run as one self-contained page: folder → figures → HTML."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isotrope.console.progress import duration
from isotrope.encoder import load
from isotrope.encoder.embed import vectors_of
from isotrope.encoder.length import limit_length
from isotrope.encoder.locate import public_name
from isotrope.encoder.prompts import one_route, routed
from isotrope.errors import UserError, needs
from isotrope.evaluation.geometry import by_gold_band, effective_rank
from isotrope.evaluation.verdict import Verdict
from isotrope.preset.preset import preset_names, read_preset
from isotrope.preset.sources import sourced
from isotrope.report.comparison import SHORT_NAMES, of_run, with_average
from isotrope.report.page import Page, PageFigure
from isotrope.report.space import Space, neighbour_tables
from isotrope.report.switching import Switch
from isotrope.report.tables import Table
from isotrope.store.files import Record, claim, write_text, writing
from isotrope.training.folder import RunFolder, TaskCosines, task_cosines

if TYPE_CHECKING:
    from isotrope.report.figures import Curve

UNFINISHED = "This run is unfinished. Go on with the same command; until then there is no new model and no verdict."


def write_report(
    run: str | Path,
    output: str | Path | None = None,
    *,
    title: str = "",
    verdict: Verdict | None = None,
    lead: Sequence[str] = (),
    tables: Sequence[Table] = (),
    figures: Sequence[PageFigure] = (),
    switch: Switch | None = None,
) -> Path:
    """Write the report of a run, finished or not: one HTML file without scripts or anything from
    outside.

    ``run`` is the folder that ``isotrope train`` wrote, and ``output`` the .html file, else
    ``run/report.html``. The figures also lie beside it as .svg and .png, in a folder of the same
    name (``run/report/``). A caller may give another verdict than that on the training, and what is
    shown before all else.

    Raises:
        UserError: the folder holds no run or a damaged one; the page cannot be written; the folder
            for its figures holds something else.
    """
    folder = RunFolder(run)
    identity, result, preset, method = (
        folder.identity,
        folder.result,
        folder.preset,
        _method(folder),
    )
    compared = [result["comparison"]] if "comparison" in result else []
    page = Path(output) if output is not None else folder.path / "report.html"
    if page.suffix.lower() not in (".html", ".htm") or page.is_dir():
        raise UserError(f"{page} is no .html file", "choose another name that ends with .html")
    with writing(page.parent, again="run the same command again"):
        claim(page.with_suffix(""), "report")
        kept = {time: task_cosines(folder.path / f"{time}.npz") for time in ("before", "after")}
        seen, missing = spaces(folder)
        try:
            with needs("report", "isotrope.report.figures").style():
                drawn = list(_figures(folder, kept, seen, page.with_suffix("")))
        except UserError as error:  # they cannot be drawn
            drawn, missing = [], [f"Figures: {error}.", *missing]
        shown = Page(
            title=title or f"Train: {public_name(preset.encoder.backbone)} with {method}",
            lead=[*lead, preset.description or method, *([] if result else [UNFINISHED])],
            verdict=verdict or (Verdict.from_record(result["verdict"]) if result else None),
            tables=[*tables, *map(of_run, compared), _facts(folder, method, identity)],
            figures=[*figures, *drawn],
            missing=missing,
            details=[
                *neighbour_tables(folder.sample, seen),
                Table(
                    "Settings", ["key", "value", "source"], list(sourced(preset, method)), words=3
                ),
                Table("Environment", ["", ""], _environment(folder.environment), words=2),
            ],
            switch=switch,
        )
        write_text(page, shown.html())
    return page


def _method(run: RunFolder) -> str:
    """The preset's name: from the result, else that of the shipped preset with the same
    description.
    """
    found = (
        name for name in preset_names() if read_preset(name).description == run.preset.description
    )
    return str(run.result.get("preset") or next(found, "a preset of its own"))


def spaces(run: RunFolder) -> tuple[dict[str, Space], list[str]]:
    """Encode the run's sample with both models -> before, after -> Space; and a line for each that
    is missing.

    Sentences are cut at the training length: this bounds the cost and matches what was trained.
    """
    if not run.sample:
        return {}, [
            "In-batch similarity, spectrum and neighbours: the run kept no sample (sample.txt)."
        ]
    seen, missing = dict[str, Space](), []
    models = {"before": run.preset.encoder.backbone}
    if run.result:
        models["after"] = str(run.model)
    for time, model in models.items():
        try:
            encoder = load(model)
            # the way that was trained
            encoder = one_route(encoder, "query") if routed(encoder) else encoder
            with limit_length(encoder, run.preset.train.max_length):
                seen[time] = Space.of(vectors_of(encoder, run.sample))
        except UserError as error:
            missing.append(f"In-batch similarity, spectrum and neighbours {time}: {error}.")
    return seen, missing


def _figures(
    run: RunFolder, kept: Mapping[str, TaskCosines], seen: Mapping[str, Space], folder: Path
) -> Iterator[PageFigure]:
    """The figures that the run has numbers for; their files are written into the folder."""
    from isotrope.report import figures

    draw = partial(figures.drawn_figure, folder)
    comparison, best = (
        run.result.get("comparison"),
        run.result.get("selection", {}).get("best_step"),
    )
    if comparison and len(comparison["per_task"]) > 1:
        tasks = {
            SHORT_NAMES.get(task, task): change for task, change in with_average(comparison).items()
        }
        points = [
            [100 * change[key] for change in tasks.values()]
            for key in ("difference", "low", "high")
        ]
        words = "Dot: the change. Line: its 95 % interval. If the line does not cross 0, the change is significant."
        yield draw("changes", "Change on each set", words, figures.changes(list(tasks), *points))
    losses = loss_curves(run.metrics)
    if any(len(steps) > 1 for steps, _ in losses.values()):
        words = "What training makes smaller. Each point is the mean over the steps since the point before."
        yield draw("loss", "Loss over the steps", words, figures.loss_terms(losses))
    if scores := dev_curves(run.metrics):
        words = "How well the model agrees with the scores of the dev pairs. Higher is better. The best step is kept."
        yield draw("dev", "Dev score over the steps", words, figures.dev_scores(scores, best))
    (steps, uniformity), (_, alignment) = _series(run.metrics, "uniformity", "alignment")
    if len(steps) > 1:
        pairs = (
            "dev pairs with a gold score above 4/5 of the highest"
            if scores
            else "two dropout views of a sentence"
        )
        words = (
            f"Alignment: the mean squared distance between two texts of the same meaning (here: {pairs}). "
            "Uniformity: how evenly all vectors spread. Lower is better on both. Training trades one for the other. See"
        )
        figure = figures.space_path(steps, alignment, uniformity, best)
        yield draw(
            "path", "Alignment and uniformity over training", words, figure, "Wang and Isola, 2020"
        )
    if before := kept["before"]:
        task = (
            "STSBenchmark"
            if "STSBenchmark" in before
            else max(before, key=lambda name: len(before[name][0]))
        )
        gold, cosines = before[task][0], {time: of[task][1] for time, of in kept.items() if of}
        words = (
            f"The {len(gold):,} pairs of {SHORT_NAMES.get(task, task)} that judge. Pairs with a high gold "
            "score should have a high cosine, so the bands should lie apart. Dots are medians. See"
        )
        figure = figures.cosines_by_gold(by_gold_band(gold, cosines))
        yield draw("cosines", "Cosine by gold score", words, figure, "RankCSE Fig. 5")
    if seen:
        sample = f"{len(run.sample)} random sentences of the corpus"
        words = f"Cosines of all pairs of {sample}. They are unrelated, so their cosines should be near 0. See"
        figure = figures.in_batch_cosines({time: space.cosines for time, space in seen.items()})
        yield draw("in-batch", "In-batch similarity", words, figure, "DCLR Fig. 1")
        shares = {time: space.shares for time, space in seen.items()}
        words = (
            f"How much of the variance of the vectors of {sample} lies along each direction. The effective rank says "
            f"how many directions they use, of at most {max(map(len, shares.values()))}."
        )
        figure = figures.spectrum(
            shares, {time: effective_rank(values) for time, values in shares.items()}
        )
        yield draw("spectrum", "Covariance spectrum", words, figure)


def _series(metrics: Sequence[Record], *keys: str) -> "list[Curve]":
    """The values of ``keys`` over the steps whose record has them all."""
    rows = [record for record in metrics if all(key in record for key in keys)]
    return [([row["step"] for row in rows], [float(row[key]) for row in rows]) for key in keys]


def loss_curves(metrics: Sequence[Record]) -> "dict[str, Curve]":
    """Loss and its terms over the steps; a single term is the loss."""
    return _curves(metrics, "loss", {"step", "grad_norm", "learning_rate"})


def dev_curves(metrics: Sequence[Record]) -> "dict[str, Curve]":
    """Dev score over the steps as Spearman × 100: each set, and the mean of several, which selects."""
    curves = _curves(metrics, "score", {"step", "alignment", "uniformity"})
    return {
        name: (steps, [100 * value for value in values]) for name, (steps, values) in curves.items()
    }


def _curves(metrics: Sequence[Record], key: str, known: set[str]) -> "dict[str, Curve]":
    """A number that is logged, and the parts that are logged with it; a single part is the number
    itself.
    """
    parts = list(
        dict.fromkeys(
            name for row in metrics if key in row for name in row if name not in {key, *known}
        )
    )
    drawn = parts if len(parts) == 1 else [key, *parts]
    return {name: curve for name in drawn if (curve := _series(metrics, key, name)[1])[0]}


def _facts(run: RunFolder, method: str, identity: Record) -> Table:
    """What was run, on what, and what was kept."""
    result, encoder = run.result, run.preset.encoder
    facts = {
        "preset": method,
        "backbone": f"{encoder.backbone} ({encoder.pooling or 'its own pooling'})",
    }
    if encoder.student:
        facts["student"] = encoder.student
    if encoder.lora:
        facts["trained"] = f"an adapter of rank {encoder.lora.rank}, {encoder.lora.save}"
    if result:
        corpus, selection = result["corpus"], result["selection"]
        facts["corpus"] = f"{corpus['used']:,} of {corpus['rows']:,} sentences"
        facts["kept"] = f"the last step, {selection['steps']}: no dev pairs"
        if (best := selection["best_step"]) is not None:
            on = f"{100 * selection['best_score']:.2f} on {', '.join(selection['sets'])}"
            facts["kept"] = f"step {best} of {selection['steps']}, {on}"
        facts["training time"] = f"{duration(selection['seconds'])} (since it was last started)"
    else:
        facts["last record"] = f"step {max((record['step'] for record in run.metrics), default=0)}"
    return Table(
        "The run", ["", ""], [*facts.items(), ("seed", str(identity.get("seed", "")))], words=2
    )


def _environment(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    plain = {key: value for key, value in found.items() if key != "packages"} | found.get(
        "packages", {}
    )
    return [
        (k, ", ".join(map(str, v)) or "none" if isinstance(v, list) else str(v))
        for k, v in plain.items()
    ]
