"""The quickstart's report: the model before and after, its verdict, and the documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from isotrope.encoder.origin import Base
from isotrope.evaluation.verdict import Verdict
from isotrope.quickstart.measures import MEANINGS, WHAT_TO_DO
from isotrope.quickstart.table import measures_table
from isotrope.report.page import Page
from isotrope.report.tables import Table
from isotrope.store.atomic import write_text

PAGE = "report.html"


def write_page(result: Mapping[str, Any], folder: Path) -> Path:
    """Write ``report.html``: one file without scripts or anything from outside.

    Args:
        result: what ``quickstart.json`` will hold.
        folder: the quickstart's.

    Raises:
        UserError: the page cannot be written.
    """
    page = Page(
        title=f"Quickstart: {Base.of(result['model']).name} for the documentation of this computer",
        lead=_lead(result),
        verdict=_verdict(result),
        tables=[
            replace(measures_table(result["measures"]), notes=[result["rule"]]),
            Table("The measures", ["", ""], list(MEANINGS.items()), words=2),
            _text(result),
        ],
    )
    write_text(folder / PAGE, page.html())
    return folder / PAGE


def _lead(result: Mapping[str, Any]) -> list[str]:
    text = result["text"]
    return [
        f"isotrope compared {result['candidates']} candidates on {text['documents']:,} docstrings of "
        f"{text['packages']} installed packages. No label was used. Its choice: {result['choice']}. All candidates are "
        "in improved/report.html.",
        f"Here the choice is judged on {text['queries']:,} docstrings of {len(text['held_out_packages'])} other "
        "packages, and on 330 graded pairs of sentences. Neither had a part in the choice.",
    ]


def _verdict(result: Mapping[str, Any]) -> Verdict:
    """The verdict, with the measure that decided it; all are in the table."""
    word, tested = result["verdict"], {name: m for name, m in result["measures"].items() if "p" in m}
    measure, found = min(tested.items(), key=lambda each: each[1]["p"])
    return Verdict(
        word if word in ("better", "worse") else "no difference found", "the model before", "the model after",
        f"{result['text']['queries']:,} docstrings of other packages and 330 graded pairs", measure,
        (found["before"], found["after"]), found["difference"], found["low"], found["high"], found["p"],
        f"{WHAT_TO_DO[word].capitalize()}.",
    )  # fmt: skip


def _text(result: Mapping[str, Any]) -> Table:
    text, agreed = result["text"], result["grading_agreement"]["spearman"]
    facts = {
        "packages to learn from": f"{text['packages']}",
        "docstrings found": f"{text['documents_found']:,}",
        "docstrings to learn from": f"{text['documents']:,}",
        "left out": f"{text['documents_shared_with_held_out']:,} docstrings that share a sentence with other packages",
        "packages to judge by": ", ".join(text["held_out_packages"]),
        "docstrings to judge by": f"{text['queries']:,}",
        "the two graders of the pairs": f"agree to {100 * agreed:.1f} (Spearman × 100)",
        "seed": f"{result['seed']}",
        "time": f"{result['seconds']:.0f} s",
    }
    return Table("The documents", ["", ""], list(facts.items()), words=2)
