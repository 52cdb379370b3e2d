"""Writes the documents' result tables from the committed result files; with --check, fails where they are stale.

python tools/tables.py [--check]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from choices import choices, halves, policies
from guide import differences
from kept import domain_student, kept, static_peer
from scale import scale_checked, scale_costs
from speed import performance
from survives import step_costs, survives, tsdae

DOCS = Path(__file__).resolve().parent.parent / "docs"
HERE = DOCS / "results"
README = DOCS.parent / "README.md"
MAIN = ("first-search", "first-minilm-search")  # the studies whose rows the README shows
IN_SEARCH = "nDCG Avg."
SHOWN = (  # these rows alone: the page of each study has all
    "Before training (not trained)",
    "Before training, then whitening (not trained)",
    "SimCSE",
    "SimCSE, then whitening",
    "WhitenedCSE",
    "DCLR",
    "RankCSE-listNet",
    "All three",
    "RankCSE-listNet, then whitening",
)
ARROW = {"better": " ↑", "worse": " ↓", "not significant": ""}
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
            name = f"[{path.parent.name}](results/{path.parent.name}/result.json)" if moment == "before" else ""
            lines.append(f"| {name} | {moment} | {' | '.join(cells)} | {points(c[moment])} |")
        change = f"{100 * c['difference']:+.2f} (95 %: {100 * c['low']:+.2f} … {100 * c['high']:+.2f})"
        lines.append(f"| | *{c['verdict']}* | {' | '.join([''] * len(c['per_task']))} | {change} |")
    return "\n".join(lines) if lines else "No run is committed yet."


def quickstart() -> str:
    """The quickstart's measures before and after."""
    path = HERE / "quickstart" / "quickstart.json"
    if not path.is_file():
        return "No quickstart run is committed yet."
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    measures, text = result["measures"], result["text"]
    lines = ["| measure | before | after | change (95 %) |", "|---|--:|--:|--:|"]
    titles = {
        "retrieval": f"MRR@10 × 100, {text['queries']:,} docstrings of held-out packages",
        "similarity": "Spearman × 100, 330 graded pairs",
    }
    for name, title in titles.items():
        m = {key: 100 * value for key, value in measures[name].items()}
        change = f"{m['difference']:+.2f} ({m['low']:+.2f} … {m['high']:+.2f})"
        lines.append(f"| {title} | {m['before']:.2f} | {m['after']:.2f} | {change} |")
    for name in ("alignment", "uniformity"):
        m = measures[name]
        change = f"{m['after'] - m['before']:+.3f}"
        lines.append(f"| {name} (lower is better) | {m['before']:.3f} | {m['after']:.3f} | {change} |")
    lines += [
        "",
        f"Chosen from {result['candidates']} candidates: {result['choice']}. Verdict: *{result['verdict']}*. "
        f"{text['documents']:,} documents, {result['seconds'] / 60:.1f} minutes on {result['environment']['cores']} "
        f"cores, at most {result['peak_memory_mb']:,} MB of memory.",
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


@cache
def studies() -> dict[str, dict[str, Any]]:
    """Folder -> record of every committed study, its tests computed again from its scores."""
    files = sorted(HERE.glob("studies/*/study.json"))
    if not files:
        return {}
    from isotrope.study.analyse import recomputed  # takes seconds, since it brings torch

    return {path.parent.name: recomputed(json.loads(path.read_text(encoding="utf-8"))) for path in files}


def methods() -> str:
    """The main studies' chosen rows on each backbone that they were run from; nothing before one was run."""
    found = {name: studies()[name] for name in MAIN if name in studies()}
    if not found:
        return ""
    from isotrope.report.tables import Table, best_marks, markdown
    from isotrope.study.document import means, row_title

    shown = [(name, record, column) for name, record in found.items() for column in (record["column"], IN_SEARCH)]
    of = [{row_title(row): means(row).get(column) for row in record["rows"]} for _, record, column in shown]
    names = [name for name in SHOWN if any(name in own for own in of)]
    cells = [[one.get(name) for one in of] for name in names]
    rows = [[name, *map(spread, own)] for name, own in zip(names, cells, strict=True)]
    columns = [[own[0] if own else float("nan") for own in column] for column in zip(*cells, strict=True)]
    header = [
        f"[{backbones(one)}](docs/results/studies/{name}/table.md): {'search' if column == IN_SEARCH else column}"
        for name, one, column in shown
    ]
    title = (
        "STS (Spearman × 100) and search (mean nDCG@10 × 100 of SciFact, CACM and NPL): mean ± standard deviation "
        "(number of seeds). Best bold, second best in italics."
    )
    table = Table(title, ["", *header], rows, best_marks(columns, [False] * len(columns)))
    said = "\n".join(f"- **The study {name}.** {record['note']}" for name, record in found.items())
    return "\n\n".join(["## What the methods give", markdown([table]).strip(), said])


def backbones(record: dict[str, Any]) -> str:
    """What a study's rows began with."""
    return ", ".join(record["scale"]["backbones"])


def sentences(record: dict[str, Any]) -> str:
    """How many a run takes."""
    count = record["scale"]["sentences"]
    return format(count, ",") if count else "all"


def spread(found: tuple[float, float | None, int] | None) -> str:
    """Mean ± standard deviation (seeds)."""
    if found is None:
        return ""
    mean, sd, n = found
    return f"{mean:.2f}" if sd is None else f"{mean:.2f} ± {sd:.2f} ({n})"


def ran() -> str:
    """What was run, on what, and how long it took."""
    if not studies():
        return "No study is committed yet."
    from isotrope.study.document import seeds_of

    lines = [
        "| study | backbone | sentences a run | seeds | cells | hours | machine |",
        "|---|---|--:|--:|--:|--:|---|",
    ]
    for name, record in studies().items():
        scale = record["scale"]
        hours = sum(cell["seconds"].get("cell", 0) for cell in record["cells"].values()) / 3600
        machines = {
            f"{one['cores']} cores" + "".join(f", {gpu}" for gpu in one["gpus"]) + f", torch {one['packages']['torch']}"
            for one in record["environments"]
        }
        lines.append(
            f"| [{name}](results/studies/{name}/table.md) | {backbones(record)} | "
            f"{sentences(record)} | {seeds_of(record).replace('one seed', '1').removesuffix(' seeds')} | "
            f"{scale['finished']} | {hours:.1f} | {'; '.join(sorted(machines))} |"
        )
    return "\n".join(lines)


def scores() -> str:
    """Each study's scores, with what a reader has to know."""
    if not studies():
        return "No study is committed yet."
    from isotrope.report.tables import markdown
    from isotrope.study.document import introduction, score_table

    blocks: list[str] = []
    for name, record in studies().items():
        where = f"For the tests of the differences, and the figures, see [{name}](results/studies/{name}/table.md)."
        blocks += [
            f"### {name}: {record['title']}",
            *introduction(record),
            markdown([score_table(record)]).strip(),
            where,
        ]
    return "\n\n".join(blocks)


def claims() -> str:
    """Each claim with its answer in every study that asked it."""
    elsewhere = {"zoo"}  # its claims are in docs/methods/zoo.md
    found = {name: record for name, record in studies().items() if record["claims"] and name not in elsewhere}
    if not found:
        return "No study with claims is committed yet."
    from isotrope.report.tables import Table, markdown
    from isotrope.study.document import measured_difference

    rows: dict[tuple[str, str], dict[str, str]] = {}  # claim and what it compares -> study -> answer
    for name, record in found.items():
        for one in record["claims"]:
            text = f"{one['text']} ({one['source']})" if one["source"] else one["text"]
            answer = ": ".join(part for part in (one["answer"], measured_difference(one)) if part)
            rows.setdefault((text, f"{one['row']} − {one['than']}"), {})[name] = answer
    cells = [[*claim, *(answers.get(name, "") for name in found)] for claim, answers in rows.items()]
    judged = [
        f"{name} ({', '.join(dict.fromkeys(one['column'] for one in record['claims']))})"
        for name, record in found.items()
    ]
    title = "Difference and its 95 % interval over seeds"
    return markdown([Table(title, ["claim", "difference", *judged], cells)]).strip()


def whitening() -> str:
    """What each exponent does, by labels and by the tasks that are made from the text; an arrow where significant."""
    path = HERE / "whiten" / "result.json"
    if not path.is_file():
        return "No measurement is committed yet."
    rows: dict[tuple[str, str, str], dict[float, dict[str, Any]]] = {}
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        for key, judge in (("labelled", f"labels, {row['measure']}"), ("self_made", "the text alone, MRR@10")):
            text = row["task"].upper() if row["task"].islower() else row["task"]
            rows.setdefault((row["model"], text, judge), {})[row["exponent"]] = row[key]
    exponents = sorted(next(iter(rows.values())))
    lines = [f"| model | text | judged by | as it is | {' | '.join(f'{e:g}' for e in exponents)} |"]
    lines.append("|---|---|---|" + "--:|" * (len(exponents) + 1))
    for names, found in rows.items():
        cells = [f"{points(found[e]['after'])}{ARROW[found[e]['verdict']]}" for e in exponents]
        lines.append(f"| {' | '.join([*names, points(found[exponents[0]]['before']), *cells])} |")
    return "\n".join(lines)


def shrink() -> str:
    """Whitening fitted on few texts: the plain covariance → the shrunk one."""
    path = HERE / "whiten" / "shrink.json"
    if not path.is_file():
        return "No measurement is committed yet."
    lines = list[str]()
    for found in json.loads(path.read_text(encoding="utf-8"))["measured"]:
        scores = {(row["texts"], row["exponent"], row["shrink"]): row["score"] for row in found["rows"]}
        exponents = sorted({exponent for _, exponent, _ in scores})
        if not lines:
            heads = [f"{e:g}: plain → shrunk" for e in exponents]
            lines = [f"| model | collection | texts | as it is | {' | '.join(heads)} |"]
            lines.append("|---|---|--:|--:|" + "--:|" * len(exponents))
        for count in sorted({texts for texts, _, _ in scores}):
            cells = [
                " → ".join(points(scores[key]) if (key := (count, e, way)) in scores else "–" for way in (False, True))
                for e in exponents
            ]
            row = [found["model"], found["collection"], f"{count:,}", points(found["as it is"]), *cells]
            lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def post_steps() -> str:
    """What each step behind a model does, by labels and by tasks from documents; the highest score of a row is bold."""
    path = HERE / "post" / "result.json"
    if not path.is_file():
        return "No measurement is committed yet."
    lines = list[str]()
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        steps: dict[str, Any] = row["steps"]
        if not lines:
            lines = [f"| model | collection | judged by | as it is | {' | '.join(steps)} |"]
            lines.append("|---|---|---|" + "--:|" * (len(steps) + 1))
        for key, judge in (("labelled", "labels, nDCG@10"), ("self_made", "the documents alone, MRR@10")):
            found = [step[key] for step in steps.values()]
            scores = [found[0]["before"], *(one["after"] for one in found)]
            signs = ["", *(ARROW[one["verdict"]] for one in found)]
            cells = [
                f"{f'**{points(score)}**' if score == max(scores) else points(score)}{sign}"
                for score, sign in zip(scores, signs, strict=True)
            ]
            lines.append(f"| {' | '.join([row['model'], row['collection'], judge, *cells])} |")
    return "\n".join(lines)


def post_choices() -> str:
    """The step that tasks from documents score highest, and what the labels say of it."""
    path = HERE / "post" / "result.json"
    if not path.is_file():
        return "No measurement is committed yet."
    lines = ["| model | collection | tasks choose | labels change by | best by labels | lost against it |"]
    lines.append("|---|---|---|--:|---|--:|")
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        first = next(iter(row["steps"].values()))
        scores = {by: {"as it is": first[by]["before"]} for by in ("labelled", "self_made")}
        for by, found in scores.items():
            found |= {name: step[by]["after"] for name, step in row["steps"].items()}
        chosen, best = (max(scores[by], key=scores[by].__getitem__) for by in ("self_made", "labelled"))
        labels = scores["labelled"]
        change, lost = 100 * (labels[chosen] - labels["as it is"]), 100 * (labels[best] - labels[chosen])
        lines.append(f"| {row['model']} | {row['collection']} | {chosen} | {change:+.2f} | {best} | {lost:.2f} |")
    return "\n".join(lines)


def first_step() -> str:
    """The first step of WhitenedCSE in one pass and in a pass a view, beside SimCSE's."""
    path = HERE / "first-step.json"
    if not path.is_file():
        return "No measurement is committed yet."
    columns = {
        "loss": "loss a positive", "gradient": "gradient norm, encoder", "feature_diversity": "diversity of features",
        "diversity": "after whitening", "disturbance": "disturbance",
    }  # fmt: skip
    lines = [f"| model | method | {' | '.join(columns.values())} |", "|---|---|" + "--:|" * len(columns)]
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        cells = [f"{row[key]:.2g}" if key in row else "" for key in columns]
        lines.append(f"| {row['model']} | {row['method']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def guide() -> str:
    """The differences behind the guide's sentences."""
    return differences(studies())


def fill(text: str, name: str, content: str) -> str:
    """Replace what stands between the markers of a table."""
    begin, end = f"<!-- {name}: made by tools/tables.py -->", f"<!-- /{name} -->"
    head, _, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not closed:
        raise SystemExit(f"the markers of {name} are missing")
    return f"{head}{begin}\n{content}\n{end}{tail}"


PAGES: dict[Path, tuple[Callable[[], str], ...]] = {
    README: (methods,),
    DOCS / "methods" / "baselines.md": (baselines,),
    DOCS / "ranking.md": (ranking,),
    DOCS / "performance.md": (performance,),
    DOCS / "studies.md": (ran, claims, runs, quickstart, scores),
    DOCS / "guide.md": (guide,),
    DOCS / "scale.md": (scale_costs, scale_checked),
    DOCS / "compress.md": (kept, static_peer, domain_student),
    DOCS / "improve.md": (choices, policies, halves),
    DOCS / "whiten.md": (whitening, shrink, post_steps, post_choices),
    DOCS / "methods" / "whitenedcse.md": (first_step,),
    DOCS / "methods" / "zoo.md": (survives, step_costs, tsdae),
}


def texts() -> Iterator[tuple[Path, str]]:
    """Every generated page as it has to be."""
    for page, tables in PAGES.items():
        text = page.read_text(encoding="utf-8")
        for table in tables:
            text = fill(text, table.__name__, table())
        yield page, text
    for name, record in studies().items():
        from isotrope.study.document import pages

        yield HERE / "studies" / name / "table.md", pages(record)["table.md"]


def main(check: bool) -> None:
    """Rewrite the documents, or check them."""
    for page, text in texts():
        if not check:
            page.write_text(text, encoding="utf-8")
        elif not page.is_file() or page.read_text(encoding="utf-8") != text:
            raise SystemExit(f"{page.relative_to(DOCS.parent)} is stale: run python tools/tables.py")


if __name__ == "__main__":
    main("--check" in sys.argv)
