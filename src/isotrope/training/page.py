"""A run as one self-contained page: folder → figures → HTML."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from isotrope.console.progress import duration
from isotrope.encoder.locate import public_name
from isotrope.errors import UserError, needs
from isotrope.evaluation.geometry import by_gold_band
from isotrope.evaluation.verdict import Verdict
from isotrope.report.comparison import SHORT_NAMES, of_run
from isotrope.report.page import Page, PageFigure
from isotrope.report.switching import Switch
from isotrope.report.tables import Table
from isotrope.store.files import Record, write_text, writing
from isotrope.training.folder import RunFolder, TaskCosines, task_cosines

if TYPE_CHECKING:
    from isotrope.report.figures import Curve

UNFINISHED = (
    "This run is unfinished. Go on with the same command; until then there is no new model and no"
    " verdict."
)
RANKCSE_FIGURE = ("RankCSE Fig. 5", "https://arxiv.org/abs/2305.16726")


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
    ``run/report.html``. A caller may give another verdict than that on the training, and what is
    shown before all else.

    Raises:
        UserError: the folder holds no run or a damaged one; the page cannot be written.
    """
    folder = RunFolder(run)
    identity = folder.identity
    result = folder.result
    page = Path(output) if output is not None else folder.path / "report.html"
    if page.suffix.lower() not in (".html", ".htm") or page.is_dir():
        remedy = "choose another name that ends with .html"
        raise UserError(f"{page} is no .html file", remedy, code="no-html-file")

    cosines = _judged_cosines(folder)
    figures: list[PageFigure] = []
    missing = []
    try:
        figures = _draw_figures(folder, cosines)
    except UserError as error:
        missing.append(f"Figures: {error}.")
    if result and verdict is None:
        verdict = Verdict.from_record(result["verdict"])
    text = Page(
        title=title or f"Train: {public_name(folder.preset.encoder.backbone)}",
        lead=[*lead, *_lead(folder)],
        verdict=verdict,
        tables=[*tables, *_tables(folder, identity)],
        figures=figures,
        missing=missing,
        switch=switch,
    ).html()
    with writing(page.parent, again="run the same command again"):
        write_text(page, text)
    return page


def _lead(run: RunFolder) -> list[str]:
    lines = [run.preset.description]
    return lines if run.result else [*lines, UNFINISHED]


def _tables(run: RunFolder, identity: Record) -> list[Table]:
    facts = _facts(run, identity)
    if "comparison" not in run.result:
        return [facts]
    return [of_run(run.result["comparison"]), facts]


def _judged_cosines(run: RunFolder) -> dict[str, TaskCosines]:
    """Before, after -> the cosines of the pairs that judged, if any did."""
    by_time = {}
    for time in ("before", "after"):
        cosines = task_cosines(run.path / f"{time}.npz")
        if cosines:
            by_time[time] = cosines
    return by_time


def _draw_figures(run: RunFolder, cosines: Mapping[str, TaskCosines]) -> list[PageFigure]:
    """The figures that the run has numbers for.

    Raises:
        UserError: the package that draws is not installed.
    """
    figures = needs("report", "isotrope.report.figures")
    with figures.style():
        return [*_training_figures(run), *_pair_figures(cosines)]


def _training_figures(run: RunFolder) -> Iterator[PageFigure]:
    """Losses and dev scores over the steps."""
    from isotrope.report import figures

    losses = loss_curves(run.metrics)
    if any(len(steps) > 1 for steps, _ in losses.values()):
        caption = (
            "What training makes smaller. Each point is the mean over the steps since the point"
            " before."
        )
        drawing = figures.svg(figures.loss_terms(losses))
        yield PageFigure("loss", "Loss over the steps", drawing, caption)

    scores = dev_curves(run.metrics)
    if scores:
        best_step = run.result.get("selection", {}).get("best_step")
        caption = (
            "How well the model agrees with the scores of the dev pairs. Higher is better. The"
            " best step is kept."
        )
        drawing = figures.svg(figures.dev_scores(scores, best_step))
        yield PageFigure("dev", "Dev score over the steps", drawing, caption)


def _pair_figures(by_time: Mapping[str, TaskCosines]) -> Iterator[PageFigure]:
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
        " gold score should have a high cosine, so the boxes should lie apart."
        " See"
    )
    cosines = {time: tasks[task][1] for time, tasks in by_time.items()}
    drawing = figures.svg(figures.cosines_by_gold(by_gold_band(gold, cosines)))
    yield PageFigure("cosines", "Cosine by gold score", drawing, caption, *RANKCSE_FIGURE)


def loss_curves(metrics: Sequence[Record]) -> "dict[str, Curve]":
    """Loss and its terms over the steps; a single term is the loss."""
    return _curves(metrics, "loss", {"step", "grad_norm", "learning_rate"})


def dev_curves(metrics: Sequence[Record]) -> "dict[str, Curve]":
    """Dev score over the steps as Spearman × 100: each set, and the mean of several."""
    return _curves(metrics, "score", {"step", "alignment", "uniformity"}, scale=100)


def _curves(
    metrics: Sequence[Record], total: str, ignored: set[str], scale: float = 1
) -> "dict[str, Curve]":
    """A number that is logged, and its summands, which are logged with it; a single summand is the
    number itself.
    """
    logged = [record for record in metrics if total in record]
    names = dict.fromkeys(chain.from_iterable(logged))  # in the order in which they came first
    summands = [name for name in names if name != total and name not in ignored]

    curves: dict[str, Curve] = {}
    for name in summands if len(summands) == 1 else [total, *summands]:
        records = [record for record in logged if name in record]
        if records:
            steps = [record["step"] for record in records]
            curves[name] = (steps, [scale * float(record[name]) for record in records])
    return curves


def _facts(run: RunFolder, identity: Record) -> Table:
    """What was run, on what, and what was kept."""
    encoder = run.preset.encoder
    pooling = encoder.pooling or "its own pooling"
    facts = {"backbone": f"{encoder.backbone} ({pooling})"}
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
        "preset": result["preset"],
        "corpus": f"{corpus['used']:,} of {corpus['rows']:,} sentences",
        "kept": kept,
        "training time": f"{duration(selection['seconds'])} (since it was last started)",
    }
