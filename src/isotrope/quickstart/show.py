"""What the quickstart shows at its end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from isotrope.quickstart.measures import MEANINGS, WHAT_TO_DO
from isotrope.quickstart.page import PAGE
from isotrope.quickstart.table import measures_table
from isotrope.report.tables import print_table


def show_result(result: Mapping[str, Any], folder: Path, console: Console) -> None:
    """Before → after, the verdict and its rule, where things lie, and what to type next.

    Args:
        result: what `isotrope.quickstart.run.quickstart` gave.
        folder: its output.
        console: from `isotrope.console.plain.plain_console`.
    """
    measures = result["measures"]
    print_table(measures_table(measures), console)
    for name, meaning in MEANINGS.items():
        p = f" p {measures[name]['p']:.3g}" if "p" in measures[name] else ""
        console.print(f"{name}: {meaning}{p}")
    console.print(f"chosen from {result['candidates']} candidates: {result['choice']}")
    console.print(f"verdict: {result['verdict']}; {WHAT_TO_DO[result['verdict']]}\n{result['rule']}")
    (minutes, seconds), memory = divmod(round(result["seconds"]), 60), result["peak_memory_mb"]
    console.print(f"took {minutes} min {seconds} s" + (f", at most {memory:,} MB of memory" if memory else ""))
    console.print(f"model:  {folder / 'improved' / 'model'}")
    console.print(f"report: {folder / PAGE}")
    console.print(f"result: {folder / 'quickstart.json'}")
    console.print("your own documents and your own model:")
    console.print("  isotrope improve YOUR-MODEL YOUR-DOCUMENTS --output better")
