"""The quickstart's report: what became of the model at each of four stages, and its one verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from isotrope.cards.base import Base
from isotrope.cards.verdict import signed
from isotrope.encoder.embed import vectors_of
from isotrope.quickstart.measures import FOUR_MODELS, MEANINGS, WHAT_TO_DO
from isotrope.quickstart.table import measures_table
from isotrope.report import figures
from isotrope.report.page import Page, PageVerdict
from isotrope.report.plots import Plot, draw_plot, run_plots
from isotrope.report.record import RunRecord
from isotrope.report.run_page import SIGNS, details
from isotrope.report.space import FEWEST_SENTENCES, Space
from isotrope.report.tables import Table
from isotrope.store.atomic import write_text
from isotrope.store.disk import writing
from isotrope.store.mark import claim
from isotrope.types import Encoder

PAGE = "report.html"
_STAGES = {
    "before": "the model as it was",
    "whitened": "whitened, without training",
    "trained": "trained on the text",
    "both": "trained, then whitened: this is the new model, called after in the last figures",
}


def write_page(result: Mapping[str, Any], folder: Path, before: Encoder, after: Encoder) -> Path:
    """Write ``report.html``: one file without scripts or anything from outside. Its figures also lie in ``report/``.

    Args:
        result: what ``quickstart.json`` will hold.
        folder: the quickstart's.
        before: the model to begin with, for the figures of its vectors.
        after: the new model.

    Raises:
        UserError: the page cannot be written; ``report/`` holds something that is not ours.
    """
    record = RunRecord.read(folder / "run")
    seen = _spaces(record.sample, {"before": before, "after": after})
    with writing(folder, again="give the same command again"), figures.style():
        claim(folder / "report", "report")
        drawn = [draw_plot(plot, folder / "report") for plot in (*_stages(result), *run_plots(record, seen))]
        page = Page(
            title=f"Quickstart: {Base.of(result['backbone']).name} on the documentation of this computer",
            lead=[_lead(result), _parts(result["measures"]["retrieval"])],
            verdict=_verdict(result),
            tables=[
                replace(measures_table(result["measures"]), notes=[result["rule"]]),
                Table("The four models", ["", ""], list(_STAGES.items()), words=2),
                Table("The measures", ["", ""], list(MEANINGS.items()), words=2),
                _text(result),
            ],
            figures=drawn,
            details=details(record, seen),
        )
        write_text(folder / PAGE, page.html())
    return folder / PAGE


def _lead(result: Mapping[str, Any]) -> str:
    text = result["text"]
    return (
        f"The model learned from {text['sentences_trained_on']:,} sentences of {text['packages']} installed packages. "
        f"No label was used. It is judged on {text['queries']:,} docstrings of {len(text['held_out_packages'])} other "
        "packages, and on 330 graded pairs of sentences."
    )


def _parts(retrieval: Mapping[str, float]) -> str:
    """Which of the two steps did what."""
    whitened, trained, both = (signed(retrieval[model] - retrieval["before"]) for model in list(FOUR_MODELS)[1:])
    return (
        f"Whitening alone changed retrieval by {whitened} points, training alone by {trained}. Training and then "
        f"whitening changed it by {both}."
    )


def _verdict(result: Mapping[str, Any]) -> PageVerdict:
    changes = [
        f"{name} {signed(m['difference'])} points (95 %: {signed(m['low'])} … {signed(m['high'])}, p = {m['p']:.3g})"
        for name, m in result["measures"].items()
        if "p" in m
    ]
    word = result["verdict"]
    return PageVerdict(word, SIGNS.get(word, ""), f"From before to both: {'; '.join(changes)}.", WHAT_TO_DO[word])


def _stages(result: Mapping[str, Any]) -> Iterator[Plot]:
    """One figure a measure."""
    for name, values in result["measures"].items():
        scale, number = (100, "{:.1f}") if "p" in values else (1, "{:.2f}")
        figure = figures.stages(list(FOUR_MODELS.values()), [scale * values[model] for model in FOUR_MODELS], number)
        yield Plot(name, name.capitalize(), MEANINGS[name], figure)


def _spaces(sample: list[str], models: Mapping[str, Encoder]) -> dict[str, Space]:
    if len(sample) < FEWEST_SENTENCES:
        return {}
    return {time: Space.of(vectors_of(model, sample)) for time, model in models.items()}


def _text(result: Mapping[str, Any]) -> Table:
    text, agreed = result["text"], result["grading_agreement"]["spearman"]
    facts = {
        "packages to train on": f"{text['packages']}",
        "sentences found": f"{text['sentences_found']:,}",
        "sentences trained on": f"{text['sentences_trained_on']:,}",
        "left out": f"{text['sentences_shared_with_held_out']:,} sentences that the other packages have too",
        "packages to judge by": ", ".join(text["held_out_packages"]),
        "docstrings to judge by": f"{text['queries']:,}",
        "the two graders of the pairs": f"agree to {100 * agreed:.1f} (Spearman × 100)",
        "seed": f"{result['seed']}",
        "time": f"{result['seconds']['total']:.0f} s",
    }
    return Table("The text", ["", ""], list(facts.items()), words=2)
