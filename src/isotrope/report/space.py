"""A model's vectors of a sample of the corpus: similarity, spectrum, nearest neighbours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isotrope.evaluation.geometry import unit, variance_shares
from isotrope.report.tables import Table
from isotrope.types import Vector

ASKED, NEAREST = 6, 3  # sentences whose neighbours are shown, neighbours each


@dataclass(frozen=True, slots=True)
class Space:
    """What the report shows about one model's vectors of N sentences."""

    cosines: Vector  # (N (N − 1) / 2,)
    shares: Vector  # (min(D, N − 1),)
    nearest: list[list[tuple[int, float]]]  # for the first sentences: (row, cosine), nearest first

    @classmethod
    def of(cls, vectors: npt.ArrayLike) -> "Space":
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


def neighbour_tables(sample: Sequence[str], seen: Mapping[str, Space]) -> list[Table]:
    """The first sentences of the sample, each with its nearest others before and after. No table without a space."""
    if not seen:
        return []
    rows = []
    for i, sentence in enumerate(sample[:ASKED]):
        nearest = (space.nearest[i] for space in seen.values())
        rows.append([sentence, *("\n".join(f"{cosine:.3f} {sample[j]}" for j, cosine in each) for each in nearest)])
    note = (
        f"The first sentences of a random sample of {len(sample)} from the corpus, not picked by hand, each with its "
        "nearest others in the sample and their cosine."
    )
    return [Table("Nearest neighbours", ["sentence", *seen], rows, words=3, notes=[note])]
