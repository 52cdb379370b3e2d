"""Writes the README's result tables from the committed result files; with --check, fails where they are stale.

python docs/results/build.py [--check]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
README = HERE.parent.parent / "README.md"
SHORT = {"STSBenchmark": "STS-B", "SICKRelatedness": "SICK-R"}


def points(value: float) -> str:
    """A fraction as the papers print it."""
    return f"{100 * value:.2f}"


def runs() -> str:
    """Each run before and after, on the seven sets, with its verdict."""
    lines: list[str] = []
    for path in sorted(HERE.glob("*/result.json")):
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if "comparison" not in result:
            continue
        c = result["comparison"]
        if not lines:
            tasks = [SHORT.get(task, task) for task in c["per_task"]]
            lines += [f"| run | | {' | '.join(tasks)} | average |", "|---|---|" + "--:|" * (len(tasks) + 1)]
        for moment in ("before", "after"):
            cells = [points(task[moment]) for task in c["per_task"].values()]
            name = f"[{path.parent.name}](docs/results/{path.parent.name}/result.json)" if moment == "before" else ""
            lines.append(f"| {name} | {moment} | {' | '.join(cells)} | {points(c[moment])} |")
        change = f"{100 * c['difference']:+.2f} (95 %: {100 * c['low']:+.2f} … {100 * c['high']:+.2f})"
        lines.append(f"| | *{c['verdict']}* | {' | '.join([''] * len(c['per_task']))} | {change} |")
    return "\n".join(lines) if lines else "No run is committed yet."


def quickstart() -> str:
    """The quickstart's three measures, before and after."""
    path = HERE / "quickstart" / "quickstart.json"
    if not path.is_file():
        return "No quickstart run is committed yet."
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    measures, text, seconds = result["measures"], result["text"], result["seconds"]["total"]
    lines = ["| measure | before | after | change (95 %) |", "|---|--:|--:|--:|"]
    titles = {
        "retrieval": f"MRR@10 × 100, {text['queries']:,} docstrings of held-out packages",
        "similarity": "Spearman × 100, 330 graded pairs",
    }
    for name, title in titles.items():
        before, after, change, low, high = (
            100 * measures[name][key] for key in ("before", "after", "difference", "low", "high")
        )
        lines.append(f"| {title} | {before:.2f} | {after:.2f} | {change:+.2f} ({low:+.2f} … {high:+.2f}) |")
    for name in ("alignment", "uniformity"):
        before, after = measures[name]["before"], measures[name]["after"]
        lines.append(f"| {name} (lower is better) | {before:.3f} | {after:.3f} | {after - before:+.3f} |")
    lines += [
        "",
        f"Verdict: *{result['verdict']}*. {text['sentences_trained_on']:,} sentences, {seconds / 60:.1f} minutes on "
        f"{result['environment']['cores']} cores, at most {result['peak_memory_mb']:,} MB of memory.",
    ]
    return "\n".join(lines)


def fill(text: str, name: str, content: str) -> str:
    """Replace what stands between the markers of a table."""
    begin, end = f"<!-- {name}: made by docs/results/build.py -->", f"<!-- /{name} -->"
    head, _, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not closed:
        raise SystemExit(f"README.md lacks the markers of {name}")
    return f"{head}{begin}\n{content}\n{end}{tail}"


def main() -> None:
    """Rewrite the README, or check it."""
    old = README.read_text(encoding="utf-8")
    new = fill(fill(old, "runs", runs()), "quickstart", quickstart())
    if "--check" in sys.argv and new != old:
        raise SystemExit("README.md is stale: run python docs/results/build.py")
    README.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
