"""The table of what isotrope/small keeps of its teacher, from the result of benchmarks/small.py."""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent / "docs" / "results" / "compress" / "small.json"


def kept() -> str:
    """A row a model: the mean of the seven STS sets, nDCG@10 of each collection and their mean, V-measure."""
    if not HERE.is_file():
        return "No measurement is committed yet."
    found = json.loads(HERE.read_text(encoding="utf-8"))
    lines = ["| model | STS, seven sets | SciFact | CACM | NPL | nDCG@10, mean | Banking77, V-measure |"]
    lines.append("|---|" + "--:|" * 6)
    for name, of in found["models"].items():
        scores = [of["sts_average"], *of["ndcg@10"].values(), of["ndcg@10_average"], *of["v_measure"].values()]
        lines.append(f"| {name} | {' | '.join(f'{100 * score:.2f}' for score in scores)} |")
    if cost := found.get("cost"):
        faster, disk = cost["faster"], cost["on_disk"]
        rows = {
            "texts a second, one thread": [f"{speed:.0f}" for speed in cost["speed"]],
            "folder, MB": [f"{size / 1e6:.1f}" for size in disk],
            "weights as they are computed with, MB": [f"{size / 1e6:.1f}" for size in cost["weights"]],
            "memory to load and encode, MB": [f"{size / 1e6:.0f}" if size else "unknown" for size in cost["memory"]],
        }
        lines += ["", "| | isotrope/minilm | isotrope/small |", "|---|--:|--:|"]
        lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
        low, median, high = (faster[key] for key in ("low", "median", "high"))
        lines += ["", f"isotrope/small is {median:.1f} times as fast ({low:.1f} … {high:.1f} in five rounds)."]
    return "\n".join(lines)
