"""Which paper's claim survives: a line a method, from the study zoo and benchmarks/methods.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from guide import difference

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"
STUDY, STEPS = RESULTS / "studies" / "zoo" / "study.json", RESULTS / "performance" / "methods-zoo-tiny.json"
TSDAE = RESULTS / "tsdae.json"
STS, SEARCH, OTHER = "Avg.", "nDCG Avg.", "SimCSE"


def survives() -> str:
    """The claim, its answer on STS, and the method's differences to SimCSE on STS and in search, with their cost."""
    if not STUDY.is_file():
        return "No measurement is committed yet."
    study: dict[str, Any] = json.loads(STUDY.read_text(encoding="utf-8"))
    steps = json.loads(STEPS.read_text(encoding="utf-8"))["over_simcse"] if STEPS.is_file() else {}
    costs = {name.replace("-", ""): f"{ratio['median']:.2f}" for name, ratio in steps.items()}
    lines = [
        "| claim | answer | STS, to SimCSE | search, to SimCSE | time of a step, SimCSE = 1 |",
        "|---|---|--:|--:|--:|",
    ]
    for claim in study["claims"]:
        row = claim["row"]
        cells = [difference(study["rows"], row, OTHER, column) or "" for column in (STS, SEARCH)]
        cost = costs.get(row.lower().replace("-", ""), "")
        lines.append(f"| {claim['text']} | {claim['answer']} | {' | '.join(cells)} | {cost} |")
    return "\n".join(lines)


def tsdae() -> str:
    """Our TSDAE beside sentence-transformers', in points; a mean over the seeds that were run."""
    if not TSDAE.is_file():
        return "No measurement is committed yet."
    lines = ["| model, pooling, steps | judged by | before | isotrope | sentence-transformers | seeds |"]
    lines.append("|---|---|--:|--:|--:|--:|")
    for name, found in json.loads(TSDAE.read_text(encoding="utf-8")).items():
        if "before" not in found:
            continue
        runs = {who: [of for run, of in found.items() if run.startswith(who)] for who in ("ours", "theirs")}
        for key, what in (("ndcg@10", "search, nDCG@10 on CACM"), ("stsb-dev", "STS-B, dev pairs")):
            means = [100 * sum(run[key] for run in of) / len(of) for of in runs.values()]
            cells = [f"{score:.1f}" for score in (100 * found["before"][key], *means)]
            lines.append(f"| {name} | {what} | {' | '.join(cells)} | {len(runs['ours'])} |")
    return "\n".join(lines)
