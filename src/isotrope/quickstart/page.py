"""The page of the quickstart: that of `improve`, with the scores of all models before it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from isotrope.evaluation.verdict import Verdict
from isotrope.improvement.page import choice_page
from isotrope.quickstart.questions import FIRST, MRR, WHITENED
from isotrope.report.page import Page
from isotrope.report.tables import Table

COLUMNS = (MRR, WHITENED, FIRST)


class QuickstartResult(BaseModel):
    """``result.json`` of a quickstart."""

    model: str  # the raw one
    choices: dict[str, str]  # row of the table -> what `improve` chose for it
    verdict: Verdict  # on the good model
    raw: Verdict  # on the raw model
    documents: int
    questions: int
    seed: int
    steps: int  # of each training
    table: dict[str, dict[str, float]]  # model -> its scores
    improved: dict[str, Any]  # the record of `improve` for the good model
    seconds: float
    environment: dict[str, Any]

    @property
    def improved_row(self) -> str:
        """The row of the good model after `improve`."""
        return f"improve {self.verdict.before}"


def advice(record: Mapping[str, Any]) -> str:
    """The sentence for a reader who reads only one."""
    result = QuickstartResult.model_validate(record)
    if result.verdict.word != "better":
        return "Keep the old model: the new one was not found to be better."
    count = result.questions
    old = round(count * result.table[result.verdict.before][FIRST])
    new = round(count * result.table[result.improved_row][FIRST])
    return (
        f"Use the new model: it finds the right page first for {new} of {count} questions, "
        f"the old one for {old}."
    )


def quickstart_page(record: Mapping[str, Any]) -> Page:
    """The page of `improve` for the good model, with the scores of all models and the verdict by
    questions.
    """
    result = QuickstartResult.model_validate(record)
    page = choice_page(result.improved)
    return replace(
        page,
        lead=[advice(record)],
        verdict=result.verdict,
        tables=[scores_table(record), *page.tables],
        switch=page.switch if result.verdict.word == "better" else None,
    )


def scores_table(record: Mapping[str, Any]) -> Table:
    """How well each model finds the right page."""
    result = QuickstartResult.model_validate(record)
    rows: list[list[str]] = []
    for name, scores in result.table.items():
        label = f"{name}: {result.choices[name]}" if name in result.choices else name
        # `improve` may have whitened its model.
        cells = [f"{100 * scores[key]:.2f}" if key in scores else "included" for key in COLUMNS]
        rows.append([label, *cells])
    title = f"{result.questions:,} questions search {result.documents:,} pages, × 100"
    return Table(title, ["", *COLUMNS], rows)
