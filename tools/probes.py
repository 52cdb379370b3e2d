"""The tables of searches that change without training: benchmarks/search/probes.py."""

import json
from collections.abc import Iterator
from typing import Any

from grid import RESULTS, grid, signed
from teachers import COLLECTIONS

Record = dict[str, Any]


def records(model: str) -> Iterator[tuple[str, Record]]:
    """The cells of a model that are there, by their collection."""
    for name in COLLECTIONS:
        file = RESULTS / "probes" / f"{model}-{name.lower()}.json"
        if file.is_file():
            yield name, json.loads(file.read_text(encoding="utf-8"))["searches"]


def gains(model: str, kind: str) -> str:
    """The gain of each search on each collection: "alone" or "with_bm25"."""
    cells = dict(records(model))
    names = [name for name in next(iter(cells.values())) if name != "as it is"]
    scores = [f"{each['as it is'][kind]['labels']:.1f}" for each in cells.values()]
    rows = [["as it is", *scores, ""]]
    for name in names:
        changes = [each[name][kind]["gain"] for each in cells.values()]
        mean = sum(changes) / len(changes)
        rows.append([name, *map(signed, changes), signed(mean)])
    return grid(["", *cells, "mean"], rows)
