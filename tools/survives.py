"""The tables of docs/methods/zoo.md: which paper's claim survives, what a step costs, and TSDAE beside its peer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from guide import difference

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"
STUDY, STEPS = RESULTS / "studies" / "zoo" / "study.json", RESULTS / "performance" / "zoo-tiny.json"
TSDAE = RESULTS / "tsdae.json"
STS, SEARCH, OTHER = "Avg.", "nDCG Avg.", "SimCSE"
WHITENED = ", then whitening"  # behind the name of a row


def survives() -> str:
    """The claim, its answer on STS, and the method's differences to SimCSE: as they are, and both behind whitening."""
    if not STUDY.is_file():
        return "No measurement is committed yet."
    study: dict[str, Any] = json.loads(STUDY.read_text(encoding="utf-8"))
    lines = ["| claim | answer | STS, to SimCSE | search, to SimCSE | STS, both whitened | search, both whitened |"]
    lines.append("|---|---|" + "--:|" * 4)
    other = {"row": "WhitenedCSE", "text": "WhitenedCSE is better than SimCSE", "answer": "[studies](../studies.md)"}
    for claim in [*study["claims"], other]:
        pairs = [(claim["row"], OTHER), (claim["row"] + WHITENED, OTHER + WHITENED)]
        cells = [difference(study["rows"], *pair, column) or "" for pair in pairs for column in (STS, SEARCH)]
        lines.append(f"| {claim['text']} | {claim['answer']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def step_costs() -> str:
    """A step of each preset over SimCSE's, the cheapest first."""
    if not STEPS.is_file():
        return "No measurement is committed yet."
    found = json.loads(STEPS.read_text(encoding="utf-8"))["over_simcse"]
    lines = ["| preset | time of a step, SimCSE = 1 | quartiles of three |", "|---|--:|--:|"]
    for name, ratio in sorted(found.items(), key=lambda one: float(one[1]["median"])):
        lines.append(f"| `{name}` | {ratio['median']:.2f} | {ratio['low']:.2f} … {ratio['high']:.2f} |")
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
        seeds = [run.removeprefix("ours-") for run in found if run.startswith("ours-")]
        seeds = [seed for seed in seeds if f"theirs-{seed}" in found]
        for key, what in (("ndcg@10", "search, nDCG@10 on CACM"), ("stsb-dev", "STS-B, dev pairs")):
            scores = [[100 * found[f"{who}-{seed}"][key] for seed in seeds] for who in ("ours", "theirs")]
            means = [sum(one) / max(1, len(one)) for one in scores]
            cells = [f"{score:.1f}" for score in (100 * found["before"][key], *means)]
            lines.append(f"| {name} | {what} | {' | '.join(cells)} | {len(seeds)} |")
    return "\n".join(lines)
