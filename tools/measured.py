"""The tables of single measurements: choices, students, whitening, baselines, ranking, the
quickstart.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from grid import ARROW, RESULTS, change, grid, points, read, signed

MODELS = {"tiny": "isotrope/tiny", "small": "isotrope/small", "minilm": "MiniLM"}
RANKED = "choice/rankings"  # races in which maps and encoders learn from rankings
SHORT = {"STSBenchmark": "STS-B", "SICKRelatedness": "SICK-R"}
BEST = "the best by labels"
TEACHER, SHIPPED = "isotrope/minilm", "isotrope/small"


def cells(folder: str = "choice") -> list[dict[str, Any]]:
    """What `isotrope improve` chose, by model and collection: benchmarks/search/choice.py."""
    found = [
        json.loads(path.read_text(encoding="utf-8")) for path in (RESULTS / folder).glob("*.json")
    ]
    return sorted(found, key=lambda cell: (list(MODELS).index(cell["model"]), cell["collection"]))


def choices(folder: str = "choice") -> str:
    """A row a cell: what was chosen, how labels judge it, and how far it is from the best
    candidate.
    """
    rows = []
    for cell in cells(folder):
        chosen, best = cell["policies"]["improve"], cell["policies"][BEST]
        pairs = [(of["self_made"], of["labels"]) for of in cell["candidates"].values()]
        order = spearmanr(*zip(*pairs, strict=True)).statistic if len(pairs) > 2 else float("nan")
        rows.append(
            [
                MODELS[cell["model"]],
                cell["collection"],
                points(chosen["before"]),
                chosen["candidate"],
                points(chosen["after"]) + ARROW[chosen["verdict"]],
                best["candidate"],
                points(best["after"]),
                points(best["after"] - chosen["after"]),
                f"{order:.2f}",
            ]
        )
    return grid(
        [
            "model",
            "collection",
            "keep",
            "chosen",
            "labels",
            "best by labels",
            "labels",
            "lost",
            "order",
        ],
        rows,
    )


def policies() -> str:
    """A row a policy: each model's mean gain over the collections, and how often it is better and
    worse.
    """
    rows: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells():
        for policy, of in cell["policies"].items():
            rows[policy][cell["model"]].append(of)
    names = {"improve": "`improve`", "whiten": "always full whitening", "crops": "always crops"}
    lines = []
    for policy, of in rows.items():
        if policy == "keep":
            continue
        line = [names.get(policy, policy)]
        for model in MODELS:
            verdicts = [one["verdict"] for one in of[model]]
            gain = float(np.mean([one["difference"] for one in of[model]]))
            line.append(
                f"{signed(100 * gain)} ({verdicts.count('better')} / {verdicts.count('worse')})"
            )
        lines.append(line)
    return grid(["policy", *MODELS.values()], lines)


def ranked_policies() -> str:
    """A row a collection: what labels say of the choice, the map alone, and BM25 in the search of
    the old model.
    """
    rows = []
    for cell in cells(RANKED):
        of = cell["policies"]
        told = [
            signed(100 * of[name]["difference"]) + ARROW[of[name]["verdict"]] if name in of else ""
            for name in ("improve", BEST, "map", "hybrid")
        ]
        rows.append([MODELS[cell["model"]], cell["collection"], *told])
    return grid(
        ["model", "collection", "`improve`", BEST, "query map alone", "BM25 in the search"], rows
    )


def halves() -> str:
    """Races that "half → half" still judged: each task's order of the candidates against the
    labels' order.
    """
    rows = []
    for path in sorted((RESULTS / "choice" / "halves").glob("*.json")):
        cell = json.loads(path.read_text(encoding="utf-8"))
        found = [of for name, of in cell["candidates"].items() if "full whitening" not in name]
        chosen = 100 * cell["policies"]["improve"]["difference"]
        for task in found[0]["tasks"]:
            order = spearmanr(
                [of["tasks"][task] for of in found], [of["labels"] for of in found]
            ).statistic
            rows.append([cell["collection"], task, signed(order), signed(chosen)])
    return grid(["collection", "task", "correlation with labels", "what improve chose then"], rows)


COLLECTIONS = ("SciFact", "CACM", "NPL", "Banking77", "StackOverflow", "TREC", "SUBJ", "MR")


def ranking_map(model: str, rows: Sequence[str] = (), tasks: bool = True) -> str:
    """A row a variant of a map: nDCG@10 by labels, and the mean of the tasks from documents:
    benchmarks/search/ranking_map.py.

    Args:
        model: of `MODELS`.
        rows: only these variants, as changes against "keep"; none: all, as they are.
        tasks: show what the tasks say, in brackets.
    """
    paths = {name: RESULTS / "ranking-map" / f"{model}-{name.lower()}.json" for name in COLLECTIONS}
    found = {
        name: json.loads(path.read_text(encoding="utf-8"))["variants"]
        for name, path in paths.items()
        if path.is_file()
    }
    variants = rows or list(dict.fromkeys(row for of in found.values() for row in of))

    def told(of: dict[str, dict[str, float]], row: str) -> str:
        if row not in of:
            return ""
        if rows:
            return signed(of[row]["labels"] - of["keep"]["labels"])
        own = f" ({of[row]['tasks']:.1f})" if tasks and "tasks" in of[row] else ""
        return f"{of[row]['labels']:.1f}{own}"

    return grid(
        ["", *found], [[row, *(told(of, row) for of in found.values())] for row in variants]
    )


def starts() -> str:
    """Which of three models `improve` takes for each collection, beside labels:
    benchmarks/search/starts.py.
    """
    rows = []
    for path in [RESULTS / "starts" / f"{name.lower()}.json" for name in COLLECTIONS]:
        cell = json.loads(path.read_text(encoding="utf-8"))
        gain, labels = cell["gain"], cell["labels"]
        told = (
            f"{signed(100 * gain['gain'])} ({signed(100 * gain['low'])} … {signed(100 * gain['high'])})"
            if gain
            else "–"
        )
        rows.append(
            [cell["collection"], cell["choice"], told, *(points(of) for of in labels.values())]
        )
    return grid(
        ["collection", "chosen", "gain on the tasks", "isotrope/small, given", *list(labels)[1:]],
        rows,
    )


def kept() -> str:
    """isotrope/small beside its teacher: quality, speed, size. benchmarks/models/small.py."""
    found = read("compress/small")
    head = [
        "model",
        "STS, seven sets",
        "SciFact",
        "CACM",
        "NPL",
        "nDCG@10, mean",
        "Banking77, V-measure",
        "transfer",
    ]
    rows = [
        [name, *_measured(of), points(of["transfer_fast_average"])]
        for name, of in found["models"].items()
    ]
    cost = found["cost"]
    low, median, high = (cost["faster"][key] for key in ("low", "median", "high"))
    sizes = ("on_disk", "weights", "memory", "at_rest")
    disk, weights, memory, rest = ([f"{size / 1e6:.0f}" for size in cost[key]] for key in sizes)
    return f"""{grid(head, rows)}

isotrope/small is {median:.1f} times as fast as its teacher ({low:.1f} … {high:.1f} in five rounds). Its folder has
{disk[1]} MB ({disk[0]}), its weights take {weights[1]} MB of memory ({weights[0]}), and loading and encoding add \
{memory[1]} MB
to a process ({memory[0]}). Of these, {rest[1]} MB ({rest[0]}) stay, for weights and tokenizer; a batch of 32 \
texts needs the rest."""


def students() -> str:
    """Students of one teacher by several recipes. benchmarks/students/students.py."""
    found, shipped = read("compress/students"), read("compress/small")
    took = found["minutes"]
    head = [
        "model",
        "STS, seven sets",
        "SciFact",
        "CACM",
        "NPL",
        "nDCG@10, mean",
        "Banking77, V-measure",
        "MB",
        "times as fast",
        "minutes of training",
    ]
    rows = [
        [
            name,
            *_measured(of),
            f"{of['on_disk'] / 1e6:.0f}",
            f"{of['faster']['median']:.1f}",
            f"{took[name]:.1f}",
        ]
        for name, of in found["models"].items()
    ]
    cost = shipped["cost"]
    small = [(TEACHER, 0, 1.0), (SHIPPED, 1, cost["faster"]["median"])]
    first, last = (
        [
            name,
            *_measured(shipped["models"][name]),
            f"{cost['on_disk'][place] / 1e6:.0f}",
            f"{faster:.1f}",
            "",
        ]
        for name, place, faster in small
    )
    steps = [took[f"20 steps, {told}"] for told in ("packed", "padded")]
    whole = next(spent for name, spent in took.items() if name.startswith("layers, MSE"))
    step = (whole - steps[0]) / (found["texts"] // 32 - 20)  # without what comes before the first
    slower = 1 + (steps[1] - steps[0]) / (20 * step)
    return f"""{grid(head, [first, *rows, last])}

Minutes are the processor's, with one thread, on a machine that did other work too. The teacher's pass over the
{found["texts"]:,} texts comes before them: {took["the teacher's pass"]:.1f} minutes, and \
{took["tokenlearn's pass"]:.1f} in tokenlearn, which has its own. Students of layers
skip padding, as isotrope loads them; a step takes sentence-transformers' own layers {slower:.1f} times as long.
isotrope/small saw other texts for about three hours."""


def rates() -> str:
    """How near the short runs of each recipe come to the teacher on held-out texts.
    benchmarks/students/students.py.
    """
    rows = [
        [
            name,
            rate,
            f"{near['spearman']:.3f}",
            f"{near['squared']:.3f}" if "squared" in near else "",
        ]
        for name, tried in read("compress/students")["rates"].items()
        for rate, near in tried.items()
    ]
    return grid(["recipe", "learning rate", "Spearman of all cosines", "squared distance"], rows)


def _measured(of: dict[str, Any]) -> list[str]:
    """STS, search and clustering, as points."""
    return [
        points(s)
        for s in (
            of["sts_average"],
            *of["ndcg@10"].values(),
            of["ndcg@10_average"],
            *of["v_measure"].values(),
        )
    ]


def query_side() -> str:
    """Students that read queries only, beside their teacher. benchmarks/students/query_side.py."""
    found = read("compress/query_side")
    rows = []
    for name, mean in found["mean"].items():
        of = [each["ndcg@10"][name]["after"] for each in found["collections"].values()]
        costs = [
            each["cost"][name] for each in found["collections"].values() if name in each["cost"]
        ]
        faster = (
            [f"{fmean(cost['faster']['median'] for cost in costs):.1f} times"] if costs else [""]
        )
        rows.append(
            [name, *map(points, (*of, mean)), f"{100 * found['kept'][name]:.1f} %", *faster]
        )
    return grid(
        [
            "queries read by",
            *found["collections"],
            "mean",
            "of the teacher's",
            "speed with queries",
        ],
        rows,
    )


def domain_student() -> str:
    """A student of one domain's documents. benchmarks/students/domain_student.py."""
    found = read("compress/scifact")
    scores = found["ndcg@10"]
    rows = [
        [
            name,
            points(score),
            f"{100 * score / scores['teacher']:.0f} %",
            "" if name == "teacher" else change(found["to the teacher"][name]),
        ]
        for name, score in scores.items()
    ]
    return grid(["model", "nDCG@10", "of the teacher's", "to the teacher"], rows)


def whitening(judges: tuple[str, ...] = ("labelled", "self_made")) -> str:
    """What each exponent does; an arrow marks a significant change. benchmarks/search/whiten.py."""
    rows: dict[tuple[str, str, str], dict[float, dict[str, Any]]] = {}
    for row in read("whiten/result")["rows"]:
        for key in judges:
            judge = (
                f"labels, {row['measure']}" if key == "labelled" else "tasks from the text, MRR@10"
            )
            text = row["task"].upper() if row["task"].islower() else row["task"]
            rows.setdefault((row["model"], text, judge), {})[row["exponent"]] = row[key]
    exponents = sorted(next(iter(rows.values())))
    lines = [
        [
            *names,
            points(found[exponents[0]]["before"]),
            *(f"{points(found[e]['after'])}{ARROW[found[e]['verdict']]}" for e in exponents),
        ]
        for names, found in rows.items()
    ]
    return grid(["model", "text", "judged by", "as it is", *(f"{e:g}" for e in exponents)], lines)


def whitening_by_labels() -> str:
    """The same, judged by labels only."""
    return whitening(("labelled",))


def few_labels(kind: str) -> str:
    """Wrong verdicts by few labels, if two models do not differ. benchmarks/search/few_labels.py."""
    shares = read("few-labels/result")[kind]
    tests = list(next(iter(shares.values())))
    rows = [
        [words, *(f"{100 * by_test[test]:.1f} %" for test in tests)]
        for words, by_test in shares.items()
    ]
    return grid([kind, *tests], rows)


def shrink() -> str:
    """Whitening fitted on few texts: the plain covariance → the shrunk one. benchmarks/search/shrink.py."""
    rows, exponents = [], list[float]()
    for found in read("whiten/shrink")["measured"]:
        scores = {
            (row["texts"], row["exponent"], row["shrink"]): row["score"] for row in found["rows"]
        }
        exponents = sorted({exponent for _, exponent, _ in scores})
        for count in sorted({texts for texts, _, _ in scores}):
            both = [[scores.get((count, e, way)) for way in (False, True)] for e in exponents]
            pairs = [
                " → ".join("–" if score is None else points(score) for score in pair)
                for pair in both
            ]
            rows.append(
                [
                    found["model"],
                    found["collection"],
                    f"{count:,}",
                    points(found["as it is"]),
                    *pairs,
                ]
            )
    return grid(
        [
            "model",
            "collection",
            "texts",
            "as it is",
            *(f"{e:g}: plain → shrunk" for e in exponents),
        ],
        rows,
    )


def post_steps() -> str:
    """What each step after a model does; the highest score of a row is bold. benchmarks/search/post.py."""
    rows = []
    found = read("post/result")["rows"]
    for row in found:
        for key, judge in (
            ("labelled", "labels, nDCG@10"),
            ("self_made", "tasks from the documents, MRR@10"),
        ):
            steps = [step[key] for step in row["steps"].values()]
            scores = [steps[0]["before"], *(one["after"] for one in steps)]
            signs = ["", *(ARROW[one["verdict"]] for one in steps)]
            shown = [f"**{points(s)}**" if s == max(scores) else points(s) for s in scores]
            rows.append(
                [
                    row["model"],
                    row["collection"],
                    judge,
                    *map("".join, zip(shown, signs, strict=True)),
                ]
            )
    return grid(["model", "collection", "judged by", "as it is", *found[0]["steps"]], rows)


def post_choices() -> str:
    """The step that tasks from documents score highest, and how labels judge it."""
    rows = []
    for row in read("post/result")["rows"]:
        first = next(iter(row["steps"].values()))
        scores = {
            by: {"as it is": first[by]["before"]}
            | {name: step[by]["after"] for name, step in row["steps"].items()}
            for by in ("labelled", "self_made")
        }
        chosen, best = (
            max(scores[by], key=scores[by].__getitem__) for by in ("self_made", "labelled")
        )
        labels = scores["labelled"]
        gain, lost = (
            100 * (labels[chosen] - labels["as it is"]),
            100 * (labels[best] - labels[chosen]),
        )
        rows.append([row["model"], row["collection"], chosen, signed(gain), best, f"{lost:.2f}"])
    return grid(
        [
            "model",
            "collection",
            "tasks choose",
            "labels change by",
            "best by labels",
            "lost against it",
        ],
        rows,
    )


def first_step(models: tuple[str, ...] = ()) -> str:
    """The first step of WhitenedCSE in one pass and in a pass a view. benchmarks/papers/first_step.py."""
    columns = {
        "loss": "loss a positive",
        "gradient": "gradient norm",
        "feature_diversity": "diversity of features",
        "diversity": "after whitening",
        "disturbance": "disturbance",
    }
    chosen = [row for row in read("first-step")["rows"] if not models or row["model"] in models]
    rows = [
        [row["model"], row["method"], *(f"{row[key]:.2g}" if key in row else "" for key in columns)]
        for row in chosen
    ]
    return grid(["model", "method", *columns.values()], rows)


def first_step_short() -> str:
    """The same for isotrope/tiny's [CLS], which learns in a pass a view."""
    return first_step(("isotrope/tiny@cls",))


def baselines() -> str:
    """Each backbone, and what whitening and flow change on the seven STS sets.
    benchmarks/papers/baselines.py.
    """
    found = read("baselines")["rows"]
    rows = [
        [
            f"`{row['name']}`",
            row["fitted_on"] or "",
            *map(points, row["tasks"].values()),
            points(row["average"]),
            change(row["against"]) if row["fitted_on"] else "",
        ]
        for row in found
    ]
    tasks = [SHORT.get(task, task) for task in found[0]["tasks"]]
    return grid(["encoder", "fitted on", *tasks, "average", "change (95 %)"], rows)


def baselines_short() -> str:
    """The average, with steps that were fitted on 20,000 sentences of Wikipedia."""
    rows = [
        [
            f"`{row['name']}`",
            points(row["average"]),
            change(row["against"]) if row["fitted_on"] else "",
        ]
        for row in read("baselines")["rows"]
        if not row["fitted_on"] or row["fitted_on"].startswith("wiki")
    ]
    return grid(["encoder", "seven STS sets", "change (95 %)"], rows)


def ranking() -> str:
    """KCC and NDCG of each model, then the averages under the other choices.
    benchmarks/papers/baselines.py ranking.
    """
    models: dict[str, Any] = read("ranking")["models"]
    parts = []
    for setting in ("test", "all"):
        first = next(iter(models.values()))[setting]
        tasks = [task for task in first if task != "average"]
        rows = [
            [name, title, *(points(of[setting][task][key]) for task in [*tasks, "average"])]
            for key, title in (("kendall", "KCC"), ("ndcg", "NDCG"))
            for name, of in models.items()
        ]
        names = [f"{SHORT.get(task, task)} ({first[task]['lists']})" for task in tasks]
        parts.append(grid([f"setting `{setting}`", "", *names, "average"], rows))
    others = next(iter(models.values()))["choices"]
    rows = [["the defaults", *(_both(of["test"]["average"]) for of in models.values())]]
    for at, other in enumerate(others):
        title = ", ".join(f"`{key} = {value}`" for key, value in other["choices"].items())
        rows.append([title, *(_both(of["choices"][at]) for of in models.values())])
    return "\n\n".join([*parts, grid(["average of the test setting with", *models], rows)])


def ranking_short() -> str:
    """The averages of the test setting."""
    rows = [
        [name, *(points(of["test"]["average"][key]) for key in ("kendall", "ndcg"))]
        for name, of in read("ranking")["models"].items()
    ]
    return grid(["model", "KCC", "NDCG"], rows)


def _both(average: dict[str, float]) -> str:
    return f"{points(average['kendall'])} / {points(average['ndcg'])}"


def tsdae() -> str:
    """Our TSDAE beside sentence-transformers', in points; a mean over the seeds.
    benchmarks/papers/tsdae.py.
    """
    rows = []
    for name, found in read("tsdae").items():
        if "before" not in found:
            continue
        seeds = [run.removeprefix("ours-") for run in found if run.startswith("ours-")]
        for key, what in (("ndcg@10", "search, nDCG@10 on CACM"), ("stsb-dev", "STS-B, dev pairs")):
            means = [
                float(np.mean([found[f"{who}-{seed}"][key] for seed in seeds]))
                for who in ("ours", "theirs")
            ]
            rows.append(
                [
                    name,
                    what,
                    *(f"{100 * s:.1f}" for s in (found["before"][key], *means)),
                    len(seeds),
                ]
            )
    return grid(
        [
            "model, pooling, steps",
            "judged by",
            "before",
            "isotrope",
            "sentence-transformers",
            "seeds",
        ],
        rows,
    )


def runs() -> str:
    """Two single runs of SimCSE from MiniLM, before and after."""
    rows, tasks = [], list[str]()
    for name in ("minilm-cls-simcse-20k", "minilm-mean-simcse-20k"):
        c = read(f"{name}/result")["comparison"]
        tasks = [SHORT.get(task, task) for task in c["per_task"]]
        for moment in ("before", "after"):
            scores = [points(task[moment]) for task in c["per_task"].values()]
            rows.append(
                [name, moment, *scores, points(c[moment]), change(c) if moment == "after" else ""]
            )
    return grid(["run", "", *tasks, "average", "change (95 %)"], rows)


def quickstart() -> str:
    """What `make quickstart` measured of each model, the verdict, and what it cost."""
    found = read("quickstart/quickstart")
    columns, rows = ["MRR@10", "then whitening", "right page first"], []
    for name, row in found["table"].items():
        scores = [points(row[column]) if column in row else "included" for column in columns]
        rows.append(
            [f"{name}: {found['choices'][name]}" if name in found["choices"] else name, *scores]
        )
    minutes = found["seconds"] / 60
    cost = f"{found['documents']:,} documents, {found['steps']} steps of each method, {minutes:.1f} minutes on"

    def told(key: str) -> str:
        verdict = found[key]
        return f"{verdict['before']} → {verdict['after']}: {change(verdict)} MRR@10, *{verdict['word']}*"

    return f"""{grid([f"{found['questions']} questions, × 100", *columns], rows)}

{told("raw")}; {told("verdict")}. No label was used.
{cost} {found["environment"]["cores"]} cores."""


def false_better() -> str:
    """How often a race without any true gain says *better*. benchmarks/search/false_better.py."""
    rows = []
    for cell in read("false-better/level")["cells"]:
        shares = [f"{100 * cell[procedure]['better']:.1f}" for procedure in ("before", "after")]
        adaptive = "yes" if cell["adaptive"] else "no"
        rows.append([cell["kind"], cell["held_out"], cell["folds"] or "", adaptive, *shares])
    head = ["scores", "held out", "in folds", "adaptive", "before, %", "after, %"]
    return grid(head, rows)


def found_gains() -> str:
    """How often a true gain is found: the share of races, and the mean true gain of the choice."""
    rows = []
    for cell in read("false-better/power")["cells"]:
        before, after = cell["before"], cell["after"]
        rows.append(
            [
                cell["better"],
                f"{cell['gain']:g}",
                cell["held_out"],
                cell["folds"] or "",
                *(f"{100 * found['better']:.0f}" for found in (before, after)),
                *(f"{found['gain']:.2f}" for found in (before, after)),
            ]
        )
    head = ["what gains", "points", "held out", "in folds", "before, %", "after, %"]
    return grid([*head, "gain before", "gain after"], rows)
