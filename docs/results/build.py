"""Writes the documents' result tables from the committed result files; with --check, fails where they are stale.

python docs/results/build.py [--check]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent
README = DOCS.parent / "README.md"
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


def baselines() -> str:
    """Each backbone, and what whitening and flow change."""
    path = HERE / "baselines.json"
    if not path.is_file():
        return "No measurement is committed yet."
    lines: list[str] = []
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        if not lines:
            tasks = [SHORT.get(task, task) for task in row["tasks"]]
            lines += [
                f"| encoder | fitted on | {' | '.join(tasks)} | average | change (95 %) |",
                "|---|---|" + "--:|" * (len(tasks) + 2),
            ]
        c = row["against"]
        change = f"{100 * c['difference']:+.2f} ({100 * c['low']:+.2f} … {100 * c['high']:+.2f})"
        cells = [points(value) for value in row["tasks"].values()]
        lines.append(
            f"| `{row['name']}` | {row['fitted_on'] or ''} | {' | '.join(cells)} | {points(row['average'])} | "
            f"{change if row['fitted_on'] else ''} |"
        )
    return "\n".join(lines)


def ranking() -> str:
    """KCC and NDCG of each model, then the averages under the other choices."""
    path = HERE / "ranking.json"
    if not path.is_file():
        return "No measurement is committed yet."
    models: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["models"]
    lines: list[str] = []
    for setting in ("test", "all"):
        first = next(iter(models.values()))[setting]
        tasks = [task for task in first if task != "average"]
        names = [f"{SHORT.get(task, task)} ({first[task]['lists']})" for task in tasks]
        lines += [f"| setting `{setting}` | | {' | '.join(names)} | average |", "|---|---|" + "--:|" * (len(tasks) + 1)]
        for key, title in (("kendall", "KCC"), ("ndcg", "NDCG")):
            for name, result in models.items():
                cells = [points(result[setting][task][key]) for task in [*tasks, "average"]]
                lines.append(f"| {name} | {title} | {' | '.join(cells)} |")
        lines.append("")
    lines += [f"| average of the test setting with | {' | '.join(models)} |", "|---|" + "--:|" * len(models)]
    rows = [("the defaults", [result["test"]["average"] for result in models.values()])]
    for at, other in enumerate(next(iter(models.values()))["choices"]):
        title = ", ".join(f"`{key} = {value}`" for key, value in other["choices"].items())
        rows.append((title, [result["choices"][at] for result in models.values()]))
    for title, averages in rows:
        cells = [f"{points(one['kendall'])} / {points(one['ndcg'])}" for one in averages]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def fill(text: str, name: str, content: str) -> str:
    """Replace what stands between the markers of a table."""
    begin, end = f"<!-- {name}: made by docs/results/build.py -->", f"<!-- /{name} -->"
    head, _, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not closed:
        raise SystemExit(f"the markers of {name} are missing")
    return f"{head}{begin}\n{content}\n{end}{tail}"


PAGES: dict[Path, tuple[Callable[[], str], ...]] = {
    README: (runs, quickstart),
    DOCS / "methods" / "baselines.md": (baselines,),
    DOCS / "ranking.md": (ranking,),
}


def main() -> None:
    """Rewrite the documents, or check them."""
    for page, tables in PAGES.items():
        old = new = page.read_text(encoding="utf-8")
        for table in tables:
            new = fill(new, table.__name__, table())
        if "--check" in sys.argv and new != old:
            raise SystemExit(f"{page.name} is stale: run python docs/results/build.py")
        page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
