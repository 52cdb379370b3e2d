"""A run as one self-contained page: folder → figures → HTML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isotrope.cards.verdict import signed
from isotrope.errors import UserError
from isotrope.report import figures
from isotrope.report.comparison import of_run
from isotrope.report.compression import compression_tables, kept_line
from isotrope.report.page import Page, PageFigure, PageVerdict
from isotrope.report.plots import draw_plot, run_plots
from isotrope.report.record import RunRecord
from isotrope.report.space import Space, neighbour_tables, spaces
from isotrope.report.tables import Table
from isotrope.store.atomic import write_text
from isotrope.store.disk import writing
from isotrope.store.mark import claim

SIGNS = {"better": "▲", "worse": "▼", "not significant": "◆", "not judged": "○", "unfinished": "…"}


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
        plots = list(run_plots(record, seen))
        drawn = [draw_plot(plot, folder) for plot in plots]
        write_text(page, _page(record, seen, missing, drawn).html())
    return page


def _page(record: RunRecord, seen: dict[str, Space], missing: list[str], figures: list[PageFigure]) -> Page:
    comparison, compression = record.result.get("comparison"), record.result.get("compression")
    return Page(
        title=record.folder.resolve().name,
        lead=[record.preset.description or record.method],
        verdict=_verdict(record),
        tables=[
            *(compression_tables(compression) if compression else []),
            *([of_run(comparison)] if comparison else []),
            _facts(record),
        ],
        figures=figures,
        missing=_missing(record, missing),
        details=details(record, seen),
    )


def details(record: RunRecord, seen: Mapping[str, Space]) -> list[Table]:
    """The tables at the end of a page: neighbours, settings, environment."""
    return [
        *neighbour_tables(record.sample, seen),
        Table("Settings", ["key", "value", "source"], record.settings(), words=3),
        Table("Environment", ["", ""], _environment(record.environment), words=2),
    ]


def _verdict(record: RunRecord) -> PageVerdict:
    if not record.result:
        advice = "go on with the same command and --resume; until then there is no new model and no verdict"
        return PageVerdict("unfinished", SIGNS["unfinished"], "", advice)
    if found := record.result.get("compression"):
        return PageVerdict(found["verdict"], SIGNS[found["verdict"]], kept_line(found), found["advice"])
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
