"""The tables of the committed studies: what was run, what the rows differ in, which claims hold."""

import tomllib
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import spearmanr

from grid import RESULTS, grid, signed

if TYPE_CHECKING:
    from isotrope.study.record import StudyRecord

STS, SEARCH = "Avg.", "nDCG Avg."
MAIN = ("first-search", "first-minilm-search")  # the studies whose rows the README shows
WHITENED = ", then whitening"  # at the end of the name of a row
SHOWN = [  # these rows only: the page of each study has all
    "Before training", f"Before training{WHITENED}", "SimCSE", f"SimCSE{WHITENED}", "WhitenedCSE", "DCLR",
    "RankCSE-listNet", f"RankCSE-listNet{WHITENED}",
]  # fmt: skip
# what is compared, the row and the one it is compared with
PAIRS = [
    ("train at all", "SimCSE", "Before training"),
    ("only whitening, against SimCSE", f"Before training{WHITENED}", "SimCSE"),
    (
        "train, then whiten, against only whitening",
        f"SimCSE{WHITENED}",
        f"Before training{WHITENED}",
    ),
    ("a ranking teacher", "RankCSE-listNet", "SimCSE"),
    ("a ranking teacher, both whitened", f"RankCSE-listNet{WHITENED}", f"SimCSE{WHITENED}"),
    ("DCLR", "DCLR", "SimCSE"),
    ("whitening inside training", "WhitenedCSE, a pass a view", "SimCSE"),
    ("all three, one pass", "All three", "SimCSE"),
    ("more text (three times as much, on MiniLM twice)", "simcse", "SimCSE"),
    ("no head", "Plain contrast", "SimCSE"),
    ("a guide that takes false negatives out", "Plain contrast, guided", "Plain contrast"),
    ("three views", "Dropout, three views", "SimCSE"),
    ("train, then whiten", f"SimCSE{WHITENED}", "SimCSE"),
    ("a ranking teacher (ListMLE)", "RankCSE-listMLE", "SimCSE"),
    (
        "a ranking teacher, then whiten, against only whitening",
        f"RankCSE-listNet{WHITENED}",
        f"Before training{WHITENED}",
    ),
    ("no consistency", "RankCSE-listNet, no consistency", "RankCSE-listNet"),
    ("no contrast", "RankCSE-listNet, no contrast", "RankCSE-listNet"),
    ("no ascent of the noise", "DCLR, no ascent", "DCLR"),
    ("whitening inside training, one pass", "WhitenedCSE", "SimCSE"),
    ("no shuffling", "WhitenedCSE, a pass a view, unshuffled", "WhitenedCSE, a pass a view"),
]
FEW = [
    (f"{share} of the text", f"{row}, sentences = {at}", f"{row}, sentences = 1")
    for row in ("SimCSE", "DCLR", "RankCSE")
    for share, at in (("30 %", 0.3), ("10 %", 0.1), ("3 %", 0.03), ("1 %", 0.01), ("0.3 %", 0.003))
]
FEW += [
    (
        f"whiten with {share}, and do not train",
        f"Whitened, not trained, sentences = {at}",
        "Before training",
    )
    for share, at in (("all of the text", 1), ("30 %", 0.3), ("10 %", 0.1), ("3 %", 0.03))
]


@cache
def records() -> "dict[str, StudyRecord]":
    """Folder -> record of every committed study, its tests computed again from its scores."""
    from isotrope.study.analyse import recomputed  # takes seconds, since it imports torch
    from isotrope.study.record import StudyRecord

    files = sorted(RESULTS.glob("studies/*/study.json"))
    return {file.parent.name: recomputed(StudyRecord.read(file.parent)) for file in files}


@cache
def studies() -> dict[str, dict[str, Any]]:
    """Folder -> `records` as JSON has them."""
    return {name: record.as_json() for name, record in records().items()}


def scores(record: dict[str, Any], label: str, column: str) -> dict[str, float]:
    """Seed -> score of a row; empty if it was not measured."""
    of: dict[str, Any] = next(
        (row["scores"] for row in record["rows"] if row["label"] == label), {}
    )
    return {seed: found[column] for seed, found in of.items() if column in found}


def tested(record: dict[str, Any], row: str, than: str, column: str) -> Any:
    """The paired test of two rows over seeds; None if one has no scores."""
    from isotrope.study.statistics import paired_test

    first, second = scores(record, row, column), scores(record, than, column)
    if not first or not second:
        return None
    if len(second) == 1:  # a backbone or a teacher: one model, whatever the seed
        second = dict.fromkeys(first, next(iter(second.values())))
    elif len(first) == 1:
        first = dict.fromkeys(second, next(iter(first.values())))
    seeds = sorted(first.keys() & second.keys())
    return paired_test([first[seed] for seed in seeds], [second[seed] for seed in seeds])


def difference(record: dict[str, Any], row: str, than: str, column: str) -> str:
    """The mean difference of two rows in points, with its 95 % interval over seeds; "" if one has
    no scores.
    """
    found = tested(record, row, than, column)
    if found is None:
        return ""
    if found.low is None or found.high is None:  # one seed
        return signed(found.mean)
    return f"{signed(found.mean)} ({signed(found.low)} … {signed(found.high)})"


def methods() -> str:
    """The main studies' chosen rows, the best of a column in bold."""
    columns = [(name, column) for name in MAIN for column in (studies()[name]["column"], SEARCH)]
    table = [
        [list(scores(studies()[name], row, column).values()) for name, column in columns]
        for row in SHOWN
    ]
    best = [max(np.mean(of) for of in column if of) for column in zip(*table, strict=True)]
    rows = [[row, *map(_spread, of, best)] for row, of in zip(SHOWN, table, strict=True)]
    judges = ["search" if column == SEARCH else column for _, column in columns]
    places = [
        f"[{_backbones(studies()[name])}](results/studies/{name}/table.md)" for name, _ in columns
    ]
    return grid(["", *map(", ".join, zip(places, judges, strict=True))], rows)


def _spread(values: list[float], best: float) -> str:
    """Mean ± standard deviation over seeds."""
    if not values:
        return ""
    mean = float(np.mean(values))
    text = f"{mean:.2f} ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else f"{mean:.2f}"
    return f"**{text}**" if mean == best else text


def highest() -> str:
    """The highest row of each study that whitens its rows, on STS and in search: scores, and no
    test of them.
    """
    rows = []
    for name, record in studies().items():
        whitened = [row["label"] for row in record["rows"] if row["label"].endswith(WHITENED)]
        cells = []
        for column in (record["column"], SEARCH):
            of = {
                row["label"]: found
                for row in record["rows"]
                if (found := scores(record, row["label"], column))
            }
            best = max(of, key=lambda label: np.mean([*of[label].values()]), default="")
            cells.append(f"{best}: {_spread([*of[best].values()], 0)}" if of else "")
        if whitened:
            rows.append([f"[{name}]({name}/table.md)", _backbones(record), *cells])
    return grid(["study", "model", "highest on STS", "highest in search"], rows)


def _backbones(record: dict[str, Any]) -> str:
    return ", ".join(record["scale"]["backbones"])


def ran() -> str:
    """What was run, on what, and how long it took."""
    rows = []
    for name, record in studies().items():
        seeds = {len(row["scores"]) for row in record["rows"] if row["kind"] == "row"} - {0}
        hours = sum(cell["seconds"].get("cell", 0) for cell in record["cells"].values()) / 3600
        rows.append(
            [
                f"[{name}]({name}/table.md)",
                record["title"],
                _backbones(record),
                f"{record['scale']['sentences']:,}",
                " to ".join(map(str, sorted({min(seeds), max(seeds)}))),
                record["scale"]["finished"],
                f"{hours:.1f}",
            ]
        )
    return grid(
        ["study", "question", "model", "sentences a run", "seeds", "cells", "hours of cells"], rows
    )


def claims() -> str:
    """Each claim with its answer in every study that asked it; the zoo's are in its own folder."""
    names = [name for name, record in studies().items() if record["claims"] and name != "zoo"]
    # claim and what it compares -> study -> answer
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for name in names:
        for one in studies()[name]["claims"]:
            answer = one["answer"]
            if seeds := one["seeds"]:
                answer += f": {signed(seeds['mean'])}"
                answer += (
                    ""
                    if seeds["low"] is None
                    else f" ({signed(seeds['low'])} … {signed(seeds['high'])})"
                )
            text = f"{one['text']} ({one['source']})" if one["source"] else one["text"]
            rows.setdefault((text, f"{one['row']} − {one['than']}"), {})[name] = answer
    lines = [
        [*claim, *(answers.get(name, "") for name in names)] for claim, answers in rows.items()
    ]
    return grid(["claim", "difference", *names], lines)


def guide() -> str:
    """What each choice changes, by the first studies."""
    judged = {"first": STS, "first-minilm": "STS-B"}
    names = [f"{name}, {column}" for name, column in judged.items()]
    rows = []
    for what, row, than in PAIRS:
        found = [difference(studies()[name], row, than, column) for name, column in judged.items()]
        rows.append([what, f"{row} − {than}", *found])
    return grid(["what is compared", "row − row", *names], rows)


def few() -> str:
    """What less text costs."""
    rows = [
        [what, f"{row} − {than}", difference(studies()["few"], row, than, STS)]
        for what, row, than in FEW
    ]
    return grid(["what is compared", "row − row", "few, Avg."], rows)


def against_simcse(*names: str) -> str:
    """Every trained row against SimCSE of its study, on STS and in search: as they are, and both
    whitened.

    Of each study, scores of the untrained model and SimCSE come first. A later study adds the rows
    that no earlier one has in all seeds. A star is a difference that is significant after Holm's
    correction over all those of the table.
    """
    from isotrope.study.statistics import ALPHA, holm

    judged = [(step, column) for step in ("", WHITENED) for column in (STS, SEARCH)]
    parts: list[tuple[dict[str, Any], list[str]]] = []
    shown: set[str] = {"SimCSE"}
    for record in map(studies().__getitem__, names):
        labels = [row["label"] for row in record["rows"] if row["kind"] == "row"]
        labels = [
            one
            for one in labels
            if not one.endswith(WHITENED) and scores(record, one, STS) and one not in shown
        ]
        if record is not studies()[names[-1]]:
            whole = len(scores(record, f"SimCSE{WHITENED}", STS))
            labels = [one for one in labels if len(scores(record, one, STS)) == whole]
        shown.update(labels)
        parts.append((record, labels))
    every = [
        (of, one + step, f"SimCSE{step}", column)
        for of, rest in parts
        for one in rest
        for step, column in judged
    ]
    tests = [tested(*one) for one in every]
    stars = [
        "*" if p is not None and p <= ALPHA else "" for p in holm([one and one.p for one in tests])
    ]
    found = iter([difference(*one) + star for one, star in zip(every, stars, strict=True)])
    rows = []
    for place, (record, labels) in enumerate(parts):
        for label in ["Before training", "SimCSE"][min(place, 1) :]:
            values = [[*scores(record, label + step, column).values()] for step, column in judged]
            rows.append([f"*{label}*", len(values[0]), *(_spread(one, 0) for one in values)])
        rows += [
            [label, len(scores(record, label, STS)), *(next(found) for _ in judged)]
            for label in labels
        ]
    return grid(
        ["method", "seeds", "STS", "search", "STS, both whitened", "search, both whitened"], rows
    )


def tuned() -> str:
    """Every method's trials of the study "fair": the best by dev pairs, and what self-made tasks
    choose.
    """
    found = tomllib.loads(
        (RESULTS / "studies" / "fair" / "search.toml").read_text(encoding="utf-8")
    )["rows"]
    rows, lost = [], []
    for label, row in sorted(found.items(), key=lambda one: -float(one[1]["dev"])):
        by_tasks = max(row["trials"], key=lambda trial: float(trial["self-made"]))
        lost.append(row["dev"] - by_tasks["dev"])
        middle = float(np.median([trial["dev"] for trial in row["trials"]]))
        rows.append(
            [
                label,
                len(row["trials"]),
                f"{row['dev']:.2f}",
                f"{middle:.2f}",
                f"{by_tasks['dev']:.2f}",
                f"{lost[-1]:.2f}",
                f"{by_tasks['self-made']:.2f}",
            ]
        )
    head = [
        "method",
        "trials",
        "best",
        "median",
        "chosen by self-made tasks",
        "lost",
        "its score on them",
    ]
    both = [(trial["dev"], trial["self-made"]) for row in found.values() for trial in row["trials"]]
    agreement = float(spearmanr(*zip(*both, strict=True)).statistic)
    said = (
        f"Over all {len(both)} trials, Spearman's correlation of the two judges is {agreement:.2f}. "
        f"Choosing by these tasks loses {np.mean(lost):.2f} points on average, {np.median(lost):.2f} in the median."
    )
    return f"{grid(head, rows)}\n\n{said}"
