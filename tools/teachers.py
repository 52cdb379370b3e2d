"""The tables of what a stronger model teaches: benchmarks/search/teachers.py."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from grid import RESULTS, grid, signed

COLLECTIONS = ("CACM", "NPL", "SciFact", "Banking77", "StackOverflow", "TREC", "SUBJ", "MR")
SEARCHES = {
    "as it is": "as it is",
    "teacher": "the teacher itself",
    "teacher with BM25": "the teacher with 0.3 BM25",
    "BM25": "BM25",
}

Record = dict[str, Any]


def records(student: str) -> Iterator[tuple[str, Record]]:
    """The cells of a student that are there, by their collection."""
    for name in COLLECTIONS:
        file = RESULTS / "teachers" / f"{student}-{name.lower()}.json"
        if file.is_file():
            yield name, json.loads(file.read_text(encoding="utf-8"))


def gain(search: Record) -> str:
    """The gain of a search in points, with its interval."""
    return f"{signed(search['gain'])} ({signed(search['low'])} … {signed(search['high'])})"


def both_gains(student: Record) -> str:
    """The gain of a student alone, and with BM25 in the search."""
    return f"{signed(student['gain'])} / {signed(student['with_bm25']['gain'])}"


def searches(student: str) -> str:
    """Searches, maps and encoders of the main settings, with intervals."""
    cells = dict(records(student))
    if not cells:
        return "Not measured yet."
    rows = [
        ["as it is", *(f"{each['searches']['as it is']['labels']:.1f}" for each in cells.values())]
    ]
    kept = [
        "with 0.3 BM25",
        *(gain(each["searches"]["as it is"]["with_bm25"]) for each in cells.values()),
    ]
    rows.append(kept)
    for name in ("teacher", "teacher with BM25"):
        rows.append([SEARCHES[name], *(gain(each["searches"][name]) for each in cells.values())])
    for kind, label in (("maps", "map"), ("encoders", "query encoder")):
        for setting in ("itself and BM25", "teacher and BM25", "all three"):
            students = [each[kind].get(setting) for each in cells.values()]
            if not any(students):
                continue
            rows.append([f"{label}, {setting}", *map(_cell(gain), students)])
            with_bm25 = [each and each["with_bm25"] for each in students]
            rows.append([f"{label}, {setting}; then 0.3 BM25", *map(_cell(gain), with_bm25)])
    return grid(["", *cells], rows)


def _cell(told: Callable[[Record], str]) -> Callable[[Record | None], str]:
    return lambda record: told(record) if record else ""


def settings(student: str) -> str:
    """The gain of each map."""
    cells = dict(records(student))
    if not cells:
        return "Not measured yet."
    names = dict.fromkeys(name for each in cells.values() for name in each["maps"])
    rows = [[name, *(both_gains(each["maps"][name]) for each in cells.values())] for name in names]
    return grid(["", *cells], rows)


def gates() -> str:
    """Which gates are open for the list of teacher and BM25, and whether its map gains by labels."""
    rows = []
    for student in ("minilm", "small"):
        for name, record in records(student):
            found = record["searches"]
            start = found["as it is"]["tasks"]
            learned = record["maps"]["teacher and BM25"]
            rows.append(
                [
                    f"{student}, {name}",
                    f"{start:.1f}",
                    f"{found['teacher']['tasks']:.1f}",
                    f"{learned['list_by_tasks']:.1f}",
                    _gate(found["teacher"]["tasks"] > start, learned["gain"]),
                    _gate(learned["list_by_tasks"] > start, learned["gain"]),
                    gain(learned),
                ]
            )
    header = [
        "",
        "as it is",
        "teacher",
        "list",
        "gate: teacher",
        "gate: list",
        "gain of the map by labels",
    ]
    return grid(header, rows)


def _gate(is_open: bool, true_gain: float) -> str:
    state = "open" if is_open else "closed"
    return state if is_open == (true_gain > 0) else f"{state}, wrong"


def counted_gates() -> str:
    """How often each gate is right, over all cells and all maps with a teacher."""
    right = {"teacher": 0, "list": 0}
    count = 0
    for student in ("minilm", "small"):
        for _, record in records(student):
            start = record["searches"]["as it is"]["tasks"]
            for learned in record["maps"].values():
                if not learned["setting"]["teacher"]:
                    continue
                count += 1
                gained = learned["gain"] > 0
                right["teacher"] += (record["searches"]["teacher"]["tasks"] > start) == gained
                right["list"] += (learned["list_by_tasks"] > start) == gained
    rows = [[name, f"{number} of {count}"] for name, number in right.items()]
    return grid(["gate", "right"], rows)
