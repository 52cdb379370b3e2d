"""The quickstart's table, four models on four measures, and its verdict for the model card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isotrope.cards.verdict import Judgement
from isotrope.quickstart.measures import FOUR_MODELS, MEANINGS, WHAT_TO_DO
from isotrope.report.tables import Table


def measures_table(measures: Mapping[str, Mapping[str, float]]) -> Table:
    """A row a measure: the four models, the change and its interval. It fits into 80 columns."""
    rows = []
    for name, values in measures.items():
        scale, digits = (100, 2) if "p" in values else (1, 3)
        change = f"{scale * (values['after'] - values['before']):+.{digits}f}"
        interval = f"{scale * values['low']:+.2f} … {scale * values['high']:+.2f}" if "low" in values else ""
        rows.append([name, *(f"{scale * values[model]:.{digits}f}" for model in FOUR_MODELS), change, interval])
    title = "No label was used; the change is from the first to the last"
    return Table(title, ["", *FOUR_MODELS.values(), "change", "95 %"], rows)


def judgement(result: Mapping[str, Any]) -> Judgement:
    """The verdict in ``quickstart.json``, for the model's card."""
    table, word = measures_table(result["measures"]), result["verdict"]
    how = " ".join(f"{name.capitalize()}: {meaning}" for name, meaning in MEANINGS.items())
    how = f"The first model was whitened, trained, or both: this model is the last one. {how} {result['rule']}"
    return Judgement(word=word, advice=WHAT_TO_DO[word], how=how, header=table.header, rows=table.rows)
