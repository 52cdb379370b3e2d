"""The tables of whole searches: promised and true gains (benchmarks/search/promised.py), and what
was chosen (benchmarks/search/choice.py --search).
"""

import json
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from grid import ARROW, RESULTS, grid, points, signed

COLLECTIONS = ("SciFact", "CACM", "NPL", "Banking77", "StackOverflow", "TREC", "SUBJ", "MR")
UNTITLED = ("SciFact without titles", "CACM without titles")
CHOSEN_ON = ("SciFact", "Banking77", "TREC", "MR")  # the variant of the tasks; others report
MODELS = {"minilm": "MiniLM", "small": "isotrope/small"}
HALVES = "half → half"
KEEP, MAP = "keep", "query map"
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
AS_THEY_ARE = "as they are"


class Cell:
    """One model and one collection."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record
        self.true = {name: 100 * gain["gain"] for name, gain in record["true"].items()}

    def promised(self, variant: str = AS_THEY_ARE, part: str = "judging") -> dict[str, float]:
        """Candidate -> the gain that the tasks promise, in points."""
        tasks = self.record["promised"][part][variant]
        names = [name for name in tasks if name != HALVES or len(tasks) <= 2]
        return {
            candidate: 100 * fmean(tasks[name][candidate] - tasks[name][KEEP] for name in names)
            for candidate in self.true
        }

    def chosen_share(self) -> float:
        """BM25's share that finds most on the choosing documents."""
        promised = self.promised(part="choosing")
        return max(SHARES, key=lambda share: promised[search(KEEP, share)])

    def best_share(self) -> float:
        """BM25's share that is best by labels."""
        return max(SHARES, key=lambda share: self.true[search(KEEP, share)])

    def label(self, candidate: str) -> str:
        """The gain by labels, with its 95 % interval."""
        gain = self.record["true"][candidate]
        low, high = signed(100 * gain["low"]), signed(100 * gain["high"])
        return f"{signed(self.true[candidate])} ({low} … {high})"


def search(model: str, bm25_share: float) -> str:
    """A search as the records name it."""
    return f"{model} + {bm25_share} BM25" if bm25_share else model


def cells(model: str, names: Sequence[str]) -> Iterator[tuple[str, Cell]]:
    """The cells that are there, by their collection."""
    for name in names:
        file = RESULTS / "promised" / f"{model}-{name.lower().replace(' ', '-')}.json"
        if file.is_file():
            yield name, Cell(json.loads(file.read_text(encoding="utf-8")))


def shares(model: str) -> str:
    """BM25's share that the tasks choose, its promised gain, and what labels say."""
    rows = []
    errors = []
    lost = []
    for name, cell in cells(model, (*COLLECTIONS, *UNTITLED)):
        chosen = cell.chosen_share()
        best = cell.best_share()
        promised = cell.promised()[search(KEEP, chosen)]
        true = cell.true[search(KEEP, chosen)]
        loss = cell.true[search(KEEP, best)] - true
        errors.append(promised - true)
        lost.append(loss)
        label = cell.label(search(KEEP, chosen)) if chosen else "0"
        rows.append([name, f"{chosen:g}", signed(promised), label, f"{best:g}", f"{loss:.2f}"])
    size = fmean(abs(error) for error in errors)
    summary = f"{signed(fmean(errors))} off on average, {size:.2f} without signs"
    rows.append(["mean", "", summary, "", "", f"{fmean(lost):.2f}"])
    return grid(["", "BM25", "promised", "by labels", "best by labels", "lost"], rows)


def models(model: str) -> str:
    """Promised and true gains of the query map and of whitening, and of the map with BM25."""
    candidates = [MAP, "slight whitening", "soft whitening", search(MAP, 0.3)]
    rows = []
    for name, cell in cells(model, (*COLLECTIONS, *UNTITLED)):
        promised = cell.promised()
        pairs = [f"{signed(promised[each])} / {signed(cell.true[each])}" for each in candidates]
        rows.append([name, *pairs])
    return grid(["promised / by labels", *candidates], rows)


def variants() -> str:
    """How far each variant of the tasks is off, where it was chosen and elsewhere."""
    every = [cell for model in MODELS for cell in cells(model, COLLECTIONS)]
    names = list(every[0][1].record["promised"]["judging"])
    rows = []
    for variant in names:
        row = [variant]
        for is_choosing in (True, False):
            errors = []
            for name, cell in every:
                if (name in CHOSEN_ON) == is_choosing:
                    promised = cell.promised(variant)
                    errors += [
                        promised[each] - cell.true[each] for each in cell.true if each != KEEP
                    ]
            row += [signed(fmean(errors)), f"{fmean(abs(error) for error in errors):.2f}"]
        rows.append(row)
    header = ["", "mean error, chosen on", "without signs", "mean error, others", "without signs"]
    return grid(header, rows)


POLICIES = ("model and BM25", "new model", "new model and BM25", "chosen")


def chosen_searches(model: str) -> str:
    """What `improve` chose as the best search of each collection, beside its parts, by labels."""
    rows = []
    gains: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    for name in COLLECTIONS:
        file = RESULTS / "choice" / "search" / f"{model}-{name.lower()}.json"
        if not file.is_file():
            continue
        searches = json.loads(file.read_text(encoding="utf-8"))["searches"]
        row = [name, points(searches["model"]["before"])]
        for policy in POLICIES:
            row.append(_searched(searches[policy]))
            gains[policy].append(100 * searches[policy]["difference"])
        rows.append(row)
    if not rows:
        return "Not measured yet."
    rows.append(["mean", "", *(signed(fmean(gains[policy])) for policy in POLICIES)])
    return grid(["", "model", *POLICIES], rows)


def _searched(search: dict[str, Any]) -> str:
    """The gain of a search with its interval, and what it is."""
    gain = signed(100 * search["difference"])
    low, high = signed(100 * search["low"]), signed(100 * search["high"])
    share = f" + {search['bm25_share']:g} BM25" if search["bm25_share"] else ""
    verdict = ARROW[search["verdict"]]
    return f"{gain} ({low} … {high}){verdict}, {search['candidate']}{share}"
