"""The tables of how well `isotrope improve` chooses, from the results of benchmarks/choice.py."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

HERE = Path(__file__).resolve().parent.parent / "docs" / "results" / "choice"
MODELS = {"tiny": "isotrope/tiny", "small": "isotrope/small", "minilm": "MiniLM", "minilm-cls": "MiniLM's [CLS]"}
SIGN = {"better": " ↑", "worse": " ↓", "not significant": ""}
BEST = "the best by labels"
NOTHING = "No measurement is committed yet."


def cells() -> list[dict[str, Any]]:
    """The committed cells, by model and collection."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in HERE.glob("*.json")]
    return sorted(found, key=lambda cell: (list(MODELS).index(cell["model"]), cell["collection"]))


def choices() -> str:
    """A row a cell: what was chosen, what labels say of it, and how far it is from the best candidate."""
    if not (found := cells()):
        return NOTHING
    lines = ["| model | collection | keep | chosen | labels | best by labels | labels | lost | order |"]
    lines.append("|---|---|--:|---|--:|---|--:|--:|--:|")
    for cell in found:
        chosen, best = cell["policies"]["improve"], cell["policies"][BEST]
        pairs = [(of["self_made"], of["labels"]) for of in cell["candidates"].values()]
        order = spearmanr(*zip(*pairs, strict=True)).statistic if len(pairs) > 2 else float("nan")
        row = [
            MODELS[cell["model"]], cell["collection"], points(chosen["before"]), chosen["candidate"],
            points(chosen["after"]) + SIGN[chosen["verdict"]], best["candidate"], points(best["after"]),
            points(best["after"] - chosen["after"]), f"{order:.2f}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def policies() -> str:
    """A row a model and policy: the mean gain, how often it is significant, and the mean distance to the best."""
    if not (found := cells()):
        return NOTHING
    rows: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for cell in found:
        for policy, of in cell["policies"].items():
            rows[cell["model"], policy].append(of | {"best": cell["policies"][BEST]["after"]})
    lines = ["| model | policy | collections | mean gain | better | worse | lost against the best |"]
    lines.append("|---|---|--:|--:|--:|--:|--:|")
    for (model, policy), of in rows.items():
        verdicts = [one["verdict"] for one in of]
        gain, lost = (float(np.mean(values)) for values in zip(
            *((one["difference"], one["best"] - one["after"]) for one in of), strict=True))  # fmt: skip
        lines.append(
            f"| {MODELS[model]} | {policy} | {len(of)} | {100 * gain:+.2f} | {verdicts.count('better')} | "
            f"{verdicts.count('worse')} | {100 * lost:.2f} |"
        )
    return "\n".join(lines)


def halves() -> str:
    """Of the races that "half → half" still judged: each task's order of the candidates against the labels' order."""
    lines = ["| collection | task | correlation with labels | what improve chose then |", "|---|---|--:|--:|"]
    for path in sorted((HERE / "halves").glob("*.json")):
        cell = json.loads(path.read_text(encoding="utf-8"))
        found = [of for name, of in cell["candidates"].items() if "full whitening" not in name]
        for task in found[0]["tasks"]:
            order = spearmanr([of["tasks"][task] for of in found], [of["labels"] for of in found]).statistic
            change = 100 * cell["policies"]["improve"]["difference"]
            lines.append(f"| {cell['collection']} | {task} | {order:+.2f} | {change:+.2f} |")
    return "\n".join(lines)


def points(value: float) -> str:
    """A fraction × 100."""
    return f"{100 * value:.2f}"
