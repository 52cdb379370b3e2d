"""What students keep of their teacher: results of benchmarks/small.py, domain_student.py and static_peer.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent / "docs" / "results" / "compress"
MISSING = "No measurement is committed yet."


def kept() -> str:
    """A row a model: the mean of the seven STS sets, nDCG@10 of each collection and their mean, V-measure, accuracy."""
    if not (path := HERE / "small.json").is_file():
        return MISSING
    found = json.loads(path.read_text(encoding="utf-8"))
    lines = [
        "| model | STS, seven sets | SciFact | CACM | NPL | nDCG@10, mean | Banking77, V-measure | transfer, fast |"
    ]
    lines.append("|---|" + "--:|" * 7)
    for name, of in found["models"].items():
        transfer = f"{100 * of['transfer_fast_average']:.2f}" if "transfer_fast_average" in of else ""
        lines.append(f"| {name} | {' | '.join(_measured(of))} | {transfer} |")
    if cost := found.get("cost"):
        faster, disk = cost["faster"], cost["on_disk"]
        rows = {
            "texts a second, one thread": [f"{speed:.0f}" for speed in cost["speed"]],
            "folder, MB": [f"{size / 1e6:.1f}" for size in disk],
            "weights as stored, MB": [f"{size / 1e6:.1f}" for size in cost["stored"]],
            "weights in memory, MB": [f"{size / 1e6:.1f}" for size in cost["weights"]],
            "memory of a process, beyond that of its libraries, MB": [
                f"{size / 1e6:.0f}" if size else "unknown" for size in cost["memory"]
            ],
        }
        lines += ["", "| | isotrope/minilm | isotrope/small |", "|---|--:|--:|"]
        lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
        low, median, high = (faster[key] for key in ("low", "median", "high"))
        lines += ["", f"isotrope/small is {median:.1f} times as fast ({low:.1f} … {high:.1f} in five rounds)."]
    return "\n".join(lines)


def domain_student() -> str:
    """A row a model: nDCG@10, its share of the teacher's, and the difference with its interval."""
    if not (path := HERE / "scifact.json").is_file():
        return MISSING
    found = json.loads(path.read_text(encoding="utf-8"))
    scores = found["ndcg@10"]
    lines = ["| model | nDCG@10 | of the teacher's | to the teacher |", "|---|--:|--:|--:|"]
    for name, score in scores.items():
        difference, low, high = (100 * found["to the teacher"][name][key] for key in ("difference", "low", "high"))
        told = "" if name == "teacher" else f"{difference:+.2f} ({low:+.2f} … {high:+.2f})"
        lines.append(f"| {name} | {100 * score:.2f} | {100 * score / scores['teacher']:.0f} % | {told} |")
    return "\n".join(lines)


def static_peer() -> str:
    """A row a model: the mean of the seven STS sets, nDCG@10 of each collection and their mean, V-measure."""
    if not (path := HERE / "static.json").is_file():
        return MISSING
    found = json.loads(path.read_text(encoding="utf-8"))
    lines = ["| model | STS, seven sets | SciFact | CACM | NPL | nDCG@10, mean | Banking77, V-measure |"]
    lines.append("|---|" + "--:|" * 6)
    lines += [f"| {name} | {' | '.join(_measured(of))} |" for name, of in found["models"].items()]
    return "\n".join(lines)


def _measured(of: dict[str, Any]) -> list[str]:
    """STS, search and clustering, as points."""
    scores = [of["sts_average"], *of["ndcg@10"].values(), of["ndcg@10_average"], *of["v_measure"].values()]
    return [f"{100 * score:.2f}" for score in scores]
