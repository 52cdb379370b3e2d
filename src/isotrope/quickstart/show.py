"""What the quickstart shows at its end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from isotrope.quickstart.measures import FOUR_MODELS
from isotrope.report.tables import Table, print_table


def show_result(result: Mapping[str, Any], folder: Path, console: Console) -> None:
    """Before → after, the verdict and its rule, where things lie, and what to type next.

    Args:
        result: what `isotrope.quickstart.run.quickstart` gave.
        folder: its output.
        console: from `isotrope.console.plain.plain_console`.
    """
    text, measures, agreed = result["text"], result["measures"], result["grading_agreement"]["spearman"]
    print_table(measures_table(measures), console)
    meanings = {
        "retrieval": f"MRR@10 × 100 of a docstring's body by its first sentence, {text['queries']:,} queries",
        "similarity": f"Spearman × 100 on 330 graded pairs (the two graders: {100 * agreed:.1f})",
        "alignment": "of pairs graded 4 or more, lower is better",
        "uniformity": "of the pairs' sentences, lower is better",
    }
    for name, meaning in meanings.items():
        p = f"; p {measures[name]['p']:.3g}" if "p" in measures[name] else ""
        console.print(f"{name}: {meaning}{p}")
    console.print(f"verdict: {result['verdict']}\n(the rule: {result['rule']})")
    (minutes, seconds), memory = divmod(round(result["seconds"]["total"]), 60), result["peak_memory_mb"]
    console.print(f"took {minutes} min {seconds} s" + (f", at most {memory:,} MB of memory" if memory else ""))
    console.print(f"model:  {folder / 'model'}")
    console.print(f"report: {folder / 'run' / 'report.html'}")
    console.print(f"result: {folder / 'quickstart.json'}")
    console.print("your own text, a sentence a line, and your own model:")
    console.print("  isotrope train YOUR-TEXT.txt --backbone YOUR-MODEL --output runs/mine [--dev YOUR-PAIRS.tsv]")
    console.print("  isotrope whiten runs/mine/model YOUR-TEXT.txt --output runs/whitened")


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
