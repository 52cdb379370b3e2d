"""How often is a race's *better* false, and how often is a true gain found?

    python benchmarks/search/false_better.py [--races 2000] [--output docs/results/false-better]

Each race has 36 candidates: six that need no training, seven trainings alone and with a post step,
longer trainings of the better four, and these averaged with the given model. Without a true gain,
all candidates have the same expected score as the given model. A candidate's scores are correlated
with those of the given model and of its own family. Scores are of three kinds:

    normal   margins
    ranks    reciprocal ranks of the right document, which change for few documents
    skewed   the same, of candidates that help hard documents and harm easy ones, or the reverse

"before" is the procedure that isotrope 0.1 had: one test of all candidates by a bootstrap with
max-T at 5 %, on the documents that had chosen which trainings went on; and, with folds, a second
test of what needs no training on more documents. "after" is what
`isotrope.improvement` does: documents that choose, two finalists, and documents that judge these.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from isotrope.evaluation.significance import compare_means
from isotrope.improvement.choose import Traits, choose_finalists
from isotrope.improvement.judge import correct_for_number
from isotrope.improvement.scores import KEEP, CandidateTable
from isotrope.improvement.split import MOST_JUDGING, choosing_count
from isotrope.types import Matrix, Vector

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results" / "false-better"
POST_STEPS, TRAININGS, LONGER = 6, 7, 4
IN_FOLDS = 4  # the post steps that folds judge: three whitenings and the query map
QUICK_STEPS = tuple(f"step {place}" for place in range(IN_FOLDS))
SPREAD = 0.3  # of a candidate's margins beside those of the given model
DEVIATION = 0.15  # of a document's change, for normal margins
STEEPNESS, MIDDLE = 2.0, -0.2  # of ranks as a function of margins: 58 % have the first place
LEVEL = 0.05
RESAMPLES = 600


@dataclass(frozen=True)
class Cell:
    """One kind of race."""

    kind: str  # normal, ranks or skewed
    held_out: int  # documents that no candidate is fitted on
    folds: int = 0  # documents that judged post steps in folds, before
    adaptive: bool = True  # the better trainings go on, not the first ones
    gain: float = 0.0  # true, in points
    better: str = ""  # what has the gain: "map", a post step, or "training", with all made from it


def reciprocal_ranks(margins: Matrix) -> Matrix:
    """1 / place, 0 beyond the tenth."""
    places = 1 + np.floor(np.exp(np.minimum(STEEPNESS * (MIDDLE - margins), 10)))
    return np.where(places <= 10, 1 / places, 0.0)


@cache
def shift_for(gain: float, spread: float) -> float:
    """What is added to margins (of this standard deviation) so that the mean rank gains so much."""
    grid = norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    wanted = reciprocal_ranks(grid).mean() + gain
    low, high = -3.0, 3.0
    for _ in range(40):
        middle = (low + high) / 2
        below = reciprocal_ranks(middle + spread * grid).mean() < wanted
        low, high = (middle, high) if below else (low, middle)
    return (low + high) / 2


class Race:
    """The scores of one race, (N,) for each candidate, as differences from the given model."""

    def __init__(self, cell: Cell, documents: int, generator: np.random.Generator) -> None:
        self.cell, self.documents = cell, documents
        self.generator = generator
        self.margins = self._noise()  # of the given model
        self.keep = reciprocal_ranks(self.margins)
        self.changes: dict[str, Vector] = {}
        self.true_gain: dict[str, float] = {}
        self._family = self._noise()

    def _noise(self) -> Vector:
        return self.generator.standard_normal(self.documents)

    def add(self, name: str, noise: Vector, share: float = 1.0, gains: bool = False) -> None:
        """Add a candidate whose margins have this noise (N,) beside those of the given model."""
        gain = share * self.cell.gain / 100 if gains else 0.0
        self.true_gain[name] = gain
        if self.cell.kind == "normal":
            self.changes[name] = gain + share * DEVIATION * noise
            return
        own = SPREAD * share
        margins = np.sqrt(1 - own**2) * self.margins + own * noise
        spread = 1.0
        if self.cell.kind == "skewed":
            spread = 0.8 if len(self.changes) % 2 else 1.25
        shifted = spread * margins + shift_for(gain, spread)
        self.changes[name] = reciprocal_ranks(shifted) - self.keep

    def noise_of(self, parent: Vector | None = None, correlation: float = 0.5) -> Vector:
        """New noise (N,), correlated with a parent's, or with all candidates'."""
        shared = self._family if parent is None else parent
        return np.asarray(np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * self._noise())


def run_race(cell: Cell, documents: int, choosing: slice, generator: np.random.Generator) -> Race:
    """All candidates of a race, of which the documents ``choosing`` decide what is trained longer."""
    race = Race(cell, documents, generator)
    for place in range(POST_STEPS):
        race.add(f"step {place}", race.noise_of(), gains=cell.better == "map" and place == 3)
    trained = []
    for place in range(TRAININGS):
        noise, gains = race.noise_of(), cell.better == "training" and place == 0
        race.add(f"training {place}", noise, gains=gains)
        race.add(f"training {place}, step", race.noise_of(noise, 0.8), gains=gains)
        trained.append((noise, gains))

    order = list(range(TRAININGS))
    if cell.adaptive:
        order.sort(key=lambda place: -race.changes[f"training {place}"][choosing].mean())
    for place in order[:LONGER]:
        noise, gains = trained[place]
        longer = race.noise_of(noise, 0.7)
        with_step = race.noise_of(longer, 0.8)
        race.add(f"longer {place}", longer, gains=gains)
        race.add(f"longer {place}, step", with_step, gains=gains)
        race.add(f"longer {place}, averaged", longer, share=0.5, gains=gains)
        race.add(f"longer {place}, averaged, step", with_step, share=0.5, gains=gains)
    return race


def choice_after(cell: Cell, generator: np.random.Generator) -> tuple[bool, float]:
    """Today's procedure -> whether it says *better*, and what its choice gains in truth."""
    count = choosing_count(cell.held_out)
    judging = min(cell.held_out - count, MOST_JUDGING)
    choosing = slice(0, count)
    race = run_race(cell, count + judging + cell.folds, choosing, generator)

    # The documents of one fold of three choose among quick steps, those of the others judge these.
    fitting = np.arange(count + judging, race.documents)
    first_fold, other_folds = fitting[: cell.folds // 3], fitting[cell.folds // 3 :]
    held_out = np.arange(count + judging)
    chooses, judges = held_out[:count], held_out[count:]
    quick = _table(race, QUICK_STEPS, np.concatenate([chooses, first_fold]))
    slow_names = [name for name in race.changes if name not in QUICK_STEPS]
    others = _table(race, slow_names, chooses)
    traits = {
        name: Traits(
            keeps_documents=name == "step 3",
            averaged_with_start=", ".join([name.split(",")[0], "averaged", *name.split(", ")[1:]]),
        )
        for name in race.changes
    }
    finalists = choose_finalists(quick, others, traits)
    comparisons = []
    for name in finalists:
        places = np.concatenate([judges, other_folds]) if name in QUICK_STEPS else judges
        comparisons.append(compare_means(np.zeros(len(places)), race.changes[name][places]))
    corrected = correct_for_number(comparisons)
    better = [
        name for name, each in zip(finalists, corrected, strict=True) if each.verdict == "better"
    ]
    if not better:
        return False, 0.0
    choice = better[0]
    if len(better) == 2:
        first, second = (race.changes[name][judges] for name in better)
        choice = better[1] if compare_means(first, second).verdict == "better" else better[0]
    return True, race.true_gain[choice]


def _table(race: Race, names: Sequence[str], places: Any) -> CandidateTable:
    """The scores of "keep" and of these candidates on some documents."""
    scores = {KEEP: {"task": np.zeros(len(places))}}
    scores |= {name: {"task": race.changes[name][places]} for name in names}
    return CandidateTable(scores)


def choice_before(cell: Cell, generator: np.random.Generator) -> tuple[bool, float]:
    """The procedure of isotrope 0.1 -> whether it says *better*, and what its choice gains."""
    choosing = slice(0, cell.held_out)
    race = run_race(cell, cell.held_out + cell.folds, choosing, generator)
    names = list(race.changes)
    changes = np.array(list(race.changes.values()))  # (C, N)
    here = changes[:, choosing]
    allowed = p_values(here, resampling_weights(cell.held_out)) <= LEVEL  # (C,)
    choice = best_allowed(here.mean(axis=1), allowed)
    if cell.folds:
        quick = changes[:IN_FOLDS]
        quick_allowed = p_values(quick, resampling_weights(race.documents)) <= LEVEL
        quick_best = best_allowed(quick.mean(axis=1), quick_allowed)
        reference = np.zeros(cell.held_out) if quick_best is None else here[quick_best]
        others = here[IN_FOLDS:] - reference
        others_allowed = p_values(others, resampling_weights(cell.held_out)) <= LEVEL
        found = best_allowed(others.mean(axis=1), others_allowed)
        choice = quick_best
        if found is not None and allowed[IN_FOLDS + found]:
            choice = IN_FOLDS + found
    if choice is None:
        return False, 0.0
    return True, race.true_gain[names[choice]]


def best_allowed(gains: Vector, allowed: Any) -> int | None:
    """The place of the largest gain (C,) among those that are allowed (C,)."""
    if not allowed.any():
        return None
    return int(np.argmax(np.where(allowed, gains, -np.inf)))


@cache
def resampling_weights(documents: int) -> Matrix:
    """Weights (N, R) of bootstrap resamples, which all races of a cell share."""
    generator = np.random.default_rng(documents)
    times = generator.multinomial(documents, np.full(documents, 1 / documents), size=RESAMPLES)
    return times.T / documents


def p_values(changes: Matrix, weights: Matrix) -> Vector:
    """One-sided p-values (C,) of the mean changes (C, N), corrected by max-T."""
    points = changes.mean(axis=1)  # (C,)
    drawn = changes @ weights  # (C, R)
    spread = drawn.std(axis=1, ddof=1)
    spread[spread == 0] = np.inf
    largest = ((drawn - points[:, None]) / spread[:, None]).max(axis=0)  # (R,)
    reached = largest[None, :] >= (points / spread)[:, None]  # (C, R)
    return np.asarray((1 + reached.sum(axis=1)) / (1 + drawn.shape[1]))


PROCEDURES: dict[str, Callable[[Cell, np.random.Generator], tuple[bool, float]]] = {
    "before": choice_before,
    "after": choice_after,
}
KINDS = ("normal", "ranks", "skewed")
SIZES = (50, 100, 300, 3000)  # documents that are held out
FOLDED = (1000, 3000)  # documents that judged in folds, beside 300 that are held out


def level_cells() -> list[Cell]:
    """Races without a true gain."""
    cells = [
        Cell(kind, size, adaptive=adaptive)
        for kind in KINDS
        for size in SIZES
        for adaptive in ((True, False) if kind == "normal" else (True,))
    ]
    return cells + [Cell(kind, 300, folds) for kind in KINDS for folds in FOLDED]


def power_cells() -> list[Cell]:
    """Races in which one post step, or one training, has a true gain."""
    sizes = [(size, 0) for size in SIZES] + [(300, folds) for folds in FOLDED]
    return [
        Cell("ranks", size, folds, gain=gain, better=better)
        for better in ("map", "training")
        for gain in (1.0, 2.0, 4.0)
        for size, folds in sizes
    ]


def simulate(cell: Cell, races: int) -> dict[str, Any]:
    """The share of races that end with *better*, and the mean true gain, of each procedure."""
    found: dict[str, Any] = asdict(cell)
    for name, procedure in PROCEDURES.items():
        generator = np.random.default_rng(7)
        asked = cell
        if name == "after" and cell.folds:  # half of the collection is held out, up to 1,300
            collection = 300 + cell.folds
            held_out = min(1300, collection // 2)
            asked = replace(cell, held_out=held_out, folds=collection - held_out)
        ends = [procedure(asked, generator) for _ in range(races)]
        better, gains = zip(*ends, strict=True)
        found[name] = {"better": float(np.mean(better)), "gain": 100 * float(np.mean(gains))}
    return found


def main(races: int, output: Path) -> None:
    """Simulate all cells and write level.json and power.json."""
    output.mkdir(parents=True, exist_ok=True)
    for name, cells in (("level", level_cells()), ("power", power_cells())):
        found = []
        for cell in cells:
            found.append(simulate(cell, races))
            print(json.dumps(found[-1]), flush=True)
        record = {"races": races, "cells": found}
        (output / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--races", type=int, default=2000)
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    main(arguments.races, arguments.output)
