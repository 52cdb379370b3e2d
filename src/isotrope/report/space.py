"""A model's vectors of a sample of the corpus: similarity, spectrum, nearest neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from isotrope.encoder import load
from isotrope.encoder.embed import cut, vectors_of
from isotrope.encoder.student import student_of
from isotrope.errors import UserError
from isotrope.evaluation.geometry import unit, variance_shares
from isotrope.report.record import RunRecord
from isotrope.report.tables import Table
from isotrope.types import Vector

READ = {"pooling", "normalize", "prompt", "prompt_name", "bidirectional"}  # settings that change the backbone's vectors
FEWEST_SENTENCES = 10  # sentences; fewer have no distribution
ASKED, NEAREST = 6, 3  # sentences whose neighbours are shown, neighbours each


@dataclass(frozen=True, slots=True)
class Space:
    """What the report shows about one model's vectors of N sentences."""

    cosines: Vector  # (N (N − 1) / 2,)
    shares: Vector  # (min(D, N − 1),)
    nearest: list[list[tuple[int, float]]]  # for the first sentences: (row, cosine), nearest first

    @classmethod
    def of(cls, vectors: npt.ArrayLike) -> Space:
        """From vectors (N, D)."""
        rows = unit(vectors)
        return cls(pair_cosines(rows), variance_shares(rows), neighbours(rows, ASKED, NEAREST))


def pair_cosines(rows: npt.NDArray[np.float64]) -> Vector:
    """Cosines of all pairs i < j of unit rows (N, D) -> (N (N − 1) / 2,)."""
    return np.asarray((rows @ rows.T)[np.triu_indices(len(rows), 1)])


def neighbours(rows: npt.NDArray[np.float64], asked: int, count: int) -> list[list[tuple[int, float]]]:
    """For each of the first ``asked`` unit rows (N, D): its ``count`` nearest others as (row, cosine)."""
    found = rows[:asked] @ rows.T  # (asked, N)
    np.fill_diagonal(found, -np.inf)
    order = np.argsort(-found, axis=1, kind="stable")[:, : min(count, len(rows) - 1)]
    return [[(int(j), float(line[j])) for j in picks] for line, picks in zip(found, order, strict=True)]


def spaces(record: RunRecord) -> tuple[dict[str, Space], list[str]]:
    """Encode the run's sample with both models -> before, after -> Space; and why one is missing.

    Sentences are cut at the training length: this bounds the cost and matches what was trained.
    """
    if len(record.sample) < FEWEST_SENTENCES:
        return {}, ["the run kept no sample of its corpus (sample.txt)"]
    settings = record.preset.encoder
    models: dict[str, tuple[str | Path, dict[str, object]]] = {
        "before": (settings.backbone, settings.model_dump(include=READ)),
        "after": (record.folder / "model", {}),
    }
    seen: dict[str, Space] = {}
    missing = []
    for time, (model, options) in models.items():
        if time == "after" and not record.result:
            missing.append("the run is unfinished, so there is no new model yet")
            continue
        try:
            encoder = load(model, **options)  # type: ignore[arg-type]
            if time == "before":
                encoder = student_of(encoder, settings.student)
            with cut(encoder, record.preset.train.max_length):
                seen[time] = Space.of(vectors_of(encoder, record.sample))
        except UserError as error:
            missing.append(f"the {'backbone' if time == 'before' else 'new model'} cannot be used any more ({error})")
    return seen, missing


def neighbour_tables(sample: Sequence[str], seen: Mapping[str, Space]) -> list[Table]:
    """The first sentences of the sample, each with its nearest others before and after. No table without a space."""
    if not seen:
        return []
    rows = [
        [
            sample[i],
            *("\n".join(f"{cosine:.3f} {sample[j]}" for j, cosine in space.nearest[i]) for space in seen.values()),
        ]
        for i in range(min(ASKED, len(sample)))
    ]
    note = (
        f"The first sentences of a random sample of {len(sample)} from the corpus, not picked by hand, each with its "
        "nearest others in the sample and their cosine."
    )
    return [Table("Nearest neighbours", ["sentence", *seen], rows, words=3, notes=[note])]
