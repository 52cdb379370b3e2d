"""A run as one self-contained page: folder → figures → HTML."""

from collections.abc import Callable, Iterator, Mapping, Sequence
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

Draw = Callable[..., PageFigure]  # writes a figure's files

UNFINISHED = (
    "This run is unfinished. Go on with the same command; until then there is no new model and no"
    " verdict."
)
NOT_SHOWN = "In-batch similarity, spectrum and neighbours"
WITHOUT_NAME = "a preset of its own"


def write_report(
    run: str | Path,
    output: str | Path | None = None,
    *,
    title: str = "",
    verdict: Verdict | None = None,
    lead: Sequence[str] = (),
    tables: Sequence[Table] = (),
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
    identity = folder.identity
    result = folder.result
    method = _method(folder)
    page = Path(output) if output is not None else folder.path / "report.html"
    if page.suffix.lower() not in (".html", ".htm") or page.is_dir():
        remedy = "choose another name that ends with .html"
        raise UserError(f"{page} is no .html file", remedy, code="no-html-file")

    with writing(page.parent, again="run the same command again"):
        claim(page.with_suffix(""), "report")
        cosines = _judged_cosines(folder)
        models, missing = spaces(folder)
        try:
            drawn = _draw_figures(folder, cosines, models, page.with_suffix(""))
        except UserError as error:
            drawn = []
            missing = [f"Figures: {error}.", *missing]
        if result and verdict is None:
            verdict = Verdict.from_record(result["verdict"])
        text = Page(
            title=title or f"Train: {public_name(folder.preset.encoder.backbone)} with {method}",
            lead=[*lead, *_lead(folder, method)],
            verdict=verdict,
            tables=[*tables, *_tables(folder, method, identity)],
            figures=drawn,
            missing=missing,
            details=_details(folder, method, models),
            switch=switch,
        ).html()
        write_text(page, text)
    return page


def _lead(run: RunFolder, method: str) -> list[str]:
    lines = [run.preset.description or method]
    return lines if run.result else [*lines, UNFINISHED]


def _tables(run: RunFolder, method: str, identity: Record) -> list[Table]:
    facts = _facts(run, method, identity)
    if "comparison" not in run.result:
        return [facts]
    return [of_run(run.result["comparison"]), facts]


def _details(run: RunFolder, method: str, models: Mapping[str, Space]) -> list[Table]:
    """What is shown at the end: neighbours, settings, and the machine."""
    settings = list(sourced(run.preset, method))
    return [
        *neighbour_tables(run.sample, models),
        Table("Settings", ["key", "value", "source"], settings, words=3),
        Table("Environment", ["", ""], _environment(run.environment), words=2),
    ]


def _method(run: RunFolder) -> str:
    """The preset's name: from the result, else that of the shipped preset with the same
    description.
    """
    if "preset" in run.result:
        return str(run.result["preset"])
    for name in preset_names():
        if read_preset(name).description == run.preset.description:
            return name
    return WITHOUT_NAME


def spaces(run: RunFolder) -> tuple[dict[str, Space], list[str]]:
    """Encode the run's sample with both models -> before, after -> Space; and a line for each that
    is missing.

    Sentences are cut at the training length: this bounds the cost and matches what was trained.
    """
    if not run.sample:
        return {}, [f"{NOT_SHOWN}: the run kept no sample (sample.txt)."]
    models = {"before": run.preset.encoder.backbone}
    if run.result:
        models["after"] = str(run.model)

    by_time: dict[str, Space] = {}
    missing = []
    for time, model in models.items():
        try:
            encoder = load(model)
            if routed(encoder):
                encoder = one_route(encoder, "query")  # the route that was trained
            with limit_length(encoder, run.preset.train.max_length):
                by_time[time] = Space.of(vectors_of(encoder, run.sample))
        except UserError as error:
            missing.append(f"{NOT_SHOWN} {time}: {error}.")
    return by_time, missing


def _judged_cosines(run: RunFolder) -> dict[str, TaskCosines]:
    """Before, after -> the cosines of the pairs that judged, if any did."""
    by_time = {}
    for time in ("before", "after"):
        cosines = task_cosines(run.path / f"{time}.npz")
        if cosines:
            by_time[time] = cosines
    return by_time


def _draw_figures(
    run: RunFolder,
    cosines: Mapping[str, TaskCosines],
    models: Mapping[str, Space],
    folder: Path,
) -> list[PageFigure]:
    """The figures that the run has numbers for; their files are written into the folder.

    Raises:
        UserError: the package that draws is not installed.
    """
    figures = needs("report", "isotrope.report.figures")
    draw = partial(figures.drawn_figure, folder)
    with figures.style():
        return [
            *_score_figures(run, draw),
            *_training_figures(run, draw),
            *_pair_figures(cosines, draw),
            *_space_figures(run, models, draw),
        ]


def _score_figures(run: RunFolder, draw: Draw) -> Iterator[PageFigure]:
    """The change on each set, if there are several."""
    from isotrope.report import figures

    comparison = run.result.get("comparison")
    if not comparison or len(comparison["per_task"]) < 2:
        return
    tasks = with_average(comparison)
    names = [SHORT_NAMES.get(task, task) for task in tasks]
    differences = [100 * change["difference"] for change in tasks.values()]
    lows = [100 * change["low"] for change in tasks.values()]
    highs = [100 * change["high"] for change in tasks.values()]
    caption = (
        "Dot: the change. Line: its 95 % interval. If the line does not cross 0, the change is"
        " significant."
    )
    figure = figures.changes(names, differences, lows, highs)
    yield draw("changes", "Change on each set", caption, figure)


def _training_figures(run: RunFolder, draw: Draw) -> Iterator[PageFigure]:
    """Losses, dev scores, and the path through alignment and uniformity."""
    from isotrope.report import figures

    best_step = run.result.get("selection", {}).get("best_step")
    losses = loss_curves(run.metrics)
    if any(len(steps) > 1 for steps, _ in losses.values()):
        caption = (
            "What training makes smaller. Each point is the mean over the steps since the point"
            " before."
        )
        yield draw("loss", "Loss over the steps", caption, figures.loss_terms(losses))

    scores = dev_curves(run.metrics)
    if scores:
        caption = (
            "How well the model agrees with the scores of the dev pairs. Higher is better. The"
            " best step is kept."
        )
        figure = figures.dev_scores(scores, best_step)
        yield draw("dev", "Dev score over the steps", caption, figure)

    (steps, uniformity), (_, alignment) = _series(run.metrics, "uniformity", "alignment")
    if len(steps) > 1:
        pairs = "two dropout views of a sentence"
        if scores:
            pairs = "dev pairs with a gold score above 4/5 of the highest"
        caption = (
            "Alignment: the mean squared distance between two texts of the same meaning (here:"
            f" {pairs}). Uniformity: how evenly all vectors spread. Lower is better on both."
            " Training trades one for the other. See"
        )
        figure = figures.space_path(steps, alignment, uniformity, best_step)
        title = "Alignment and uniformity over training"
        yield draw("path", title, caption, figure, "Wang and Isola, 2020")


def _pair_figures(by_time: Mapping[str, TaskCosines], draw: Draw) -> Iterator[PageFigure]:
    """The cosines of the judging pairs, by their gold score."""
    from isotrope.report import figures

    if "before" not in by_time:
        return
    tasks = by_time["before"]
    task = max(tasks, key=lambda name: len(tasks[name][0]))
    if "STSBenchmark" in tasks:
        task = "STSBenchmark"
    gold = tasks[task][0]
    caption = (
        f"The {len(gold):,} pairs of {SHORT_NAMES.get(task, task)} that judge. Pairs with a high"
        " gold score should have a high cosine, so the bands should lie apart. Dots are medians."
        " See"
    )
    cosines = {time: tasks[task][1] for time, tasks in by_time.items()}
    figure = figures.cosines_by_gold(by_gold_band(gold, cosines))
    yield draw("cosines", "Cosine by gold score", caption, figure, "RankCSE Fig. 5")


def _space_figures(run: RunFolder, models: Mapping[str, Space], draw: Draw) -> Iterator[PageFigure]:
    """The cosines and the spectrum of the sample's vectors."""
    from isotrope.report import figures

    if not models:
        return
    sample = f"{len(run.sample)} random sentences of the corpus"
    caption = (
        f"Cosines of all pairs of {sample}. They are unrelated, so their cosines should be near 0."
        " See"
    )
    figure = figures.in_batch_cosines({time: space.cosines for time, space in models.items()})
    yield draw("in-batch", "In-batch similarity", caption, figure, "DCLR Fig. 1")

    shares = {time: space.shares for time, space in models.items()}
    ranks = {time: effective_rank(values) for time, values in shares.items()}
    directions = max(len(values) for values in shares.values())
    caption = (
        f"How much of the variance of the vectors of {sample} lies along each direction. The"
        f" effective rank says how many directions they use, of at most {directions}."
    )
    yield draw("spectrum", "Covariance spectrum", caption, figures.spectrum(shares, ranks))


def _series(metrics: Sequence[Record], *keys: str) -> "list[Curve]":
    """The values of ``keys`` over the steps whose record has them all."""
    records = [record for record in metrics if record.keys() >= set(keys)]
    steps = [record["step"] for record in records]
    curves: list[Curve] = []
    for key in keys:
        curves.append((steps, [float(record[key]) for record in records]))
    return curves


def loss_curves(metrics: Sequence[Record]) -> "dict[str, Curve]":
    """Loss and its terms over the steps; a single term is the loss."""
    return _curves(metrics, "loss", {"step", "grad_norm", "learning_rate"})


def dev_curves(metrics: Sequence[Record]) -> "dict[str, Curve]":
    """Dev score over the steps as Spearman × 100: each set, and the mean of several."""
    curves = _curves(metrics, "score", {"step", "alignment", "uniformity"})
    for name, (steps, scores) in curves.items():
        curves[name] = (steps, [100 * score for score in scores])
    return curves


def _curves(metrics: Sequence[Record], total: str, ignored: set[str]) -> "dict[str, Curve]":
    """A number that is logged, and its summands, which are logged with it; a single summand is the
    number itself.
    """
    logged: dict[str, None] = {}  # in the order in which they were logged first
    for record in metrics:
        if total in record:
            logged |= dict.fromkeys(record)
    summands = [name for name in logged if name != total and name not in ignored]
    names = summands if len(summands) == 1 else [total, *summands]

    curves = {}
    for name in names:
        steps, values = _series(metrics, total, name)[1]
        if steps:
            curves[name] = (steps, values)
    return curves


def _facts(run: RunFolder, method: str, identity: Record) -> Table:
    """What was run, on what, and what was kept."""
    encoder = run.preset.encoder
    pooling = encoder.pooling or "its own pooling"
    facts = {"preset": method, "backbone": f"{encoder.backbone} ({pooling})"}
    if encoder.student:
        facts["student"] = encoder.student
    if encoder.lora:
        facts["trained"] = f"an adapter of rank {encoder.lora.rank}, {encoder.lora.save}"
    if run.result:
        facts |= _result_facts(run.result)
    else:
        last_step = max((record["step"] for record in run.metrics), default=0)
        facts["last record"] = f"step {last_step}"
    facts["seed"] = str(identity.get("seed", ""))
    return Table("The run", ["", ""], list(facts.items()), words=2)


def _result_facts(result: Record) -> dict[str, str]:
    corpus = result["corpus"]
    selection = result["selection"]
    kept = f"the last step, {selection['steps']}: no dev pairs"
    if selection["best_step"] is not None:
        score = f"{100 * selection['best_score']:.2f} on {', '.join(selection['sets'])}"
        kept = f"step {selection['best_step']} of {selection['steps']}, {score}"
    return {
        "corpus": f"{corpus['used']:,} of {corpus['rows']:,} sentences",
        "kept": kept,
        "training time": f"{duration(selection['seconds'])} (since it was last started)",
    }


def _environment(environment: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The machine and the versions, without their table of packages."""
    rows = []
    plain = {key: value for key, value in environment.items() if key != "packages"}
    for key, value in {**plain, **environment.get("packages", {})}.items():
        if isinstance(value, list):
            value = ", ".join(map(str, value)) or "none"
        rows.append((key, str(value)))
    return rows
