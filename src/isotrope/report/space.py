"""A model's vectors of a sample of the corpus: similarity, spectrum, nearest neighbours, and a map
of two models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import orthogonal_procrustes
from sklearn.cluster import KMeans
from sklearn.manifold import TSNE

from isotrope.evaluation.geometry import unit, variance_shares
from isotrope.report.page import EDGE, INK, RULE, SERIES, WIDTH, PageFigure, svg_of
from isotrope.report.tables import Table
from isotrope.store.files import Record
from isotrope.text.bm25 import Bm25Index
from isotrope.text.permutation import evenly
from isotrope.types import Vector

ASKED, NEAREST = 6, 3  # sentences whose neighbours are shown, neighbours each
MAPPED, FEWEST_MAPPED, GROUPS = 300, 50, 5  # texts on a map, groups of texts
SIDE, TOP, LINE = 192, 24, 20  # of a map: its side, the place for its name, a line of its legend
MAP_CAPTION = (
    "Each point is one of {count} texts, and near points have similar vectors (t-SNE, cosine). Texts of one colour "
    "share words, which no model decided: below are the words that mark each colour."
)


@dataclass(frozen=True, slots=True)
class Space:
    """What the report shows about one model's vectors of N sentences."""

    cosines: Vector  # (N (N − 1) / 2,)
    shares: Vector  # (min(D, N − 1),) of the variance along each principal direction
    # for the first sentences: (row, cosine) of other ones, nearest first
    nearest: list[list[tuple[int, float]]]

    @classmethod
    def of(cls, vectors: npt.ArrayLike) -> "Space":
        """From vectors (N, D)."""
        rows = unit(vectors)
        found = rows[:ASKED] @ rows.T  # (ASKED, N)
        np.fill_diagonal(found, -np.inf)
        order = np.argsort(-found, axis=1, kind="stable")[:, : min(NEAREST, len(rows) - 1)]
        nearest = [
            [(int(j), float(line[j])) for j in picks]
            for line, picks in zip(found, order, strict=True)
        ]
        return cls(pair_cosines(rows), variance_shares(rows), nearest)


def pair_cosines(rows: npt.NDArray[np.float64]) -> Vector:
    """Cosines of all pairs i < j of unit rows (N, D) -> (N (N − 1) / 2,)."""
    return np.asarray((rows @ rows.T)[np.triu_indices(len(rows), 1)])


def neighbour_tables(sample: Sequence[str], seen: Mapping[str, Space]) -> list[Table]:
    """The first sentences of the sample, each with its nearest others before and after. No table
    without a space.
    """
    if not seen:
        return []
    rows = []
    for i, sentence in enumerate(sample[:ASKED]):
        nearest = (space.nearest[i] for space in seen.values())
        rows.append(
            [
                sentence,
                *("\n".join(f"{cosine:.3f} {sample[j]}" for j, cosine in each) for each in nearest),
            ]
        )
    note = (
        f"The first sentences of a random sample of {len(sample)} from the corpus, not picked by hand, each with its "
        "nearest others in the sample and their cosine."
    )
    return [Table("Nearest neighbours", ["sentence", *seen], rows, words=3, notes=[note])]


def text_map(texts: Sequence[str], before: npt.ArrayLike, after: npt.ArrayLike) -> Record | None:
    """Where two models place some of the texts (N,) on a plane; None if too few differ. Vectors are
    (N, D).

    The second map begins with the first and is turned to it (Procrustes). Groups are made from
    words alone.

    Returns:
        "before" and "after", (x, y) from 0 to 1 for each text; "group" of each; and "words" of each
        group.
    """
    some = evenly(len(texts), MAPPED)
    spaces = {time: unit(vectors)[some] for time, vectors in (("before", before), ("after", after))}
    if any(len(np.unique(rows.round(6), axis=0)) < FEWEST_MAPPED for rows in spaces.values()):
        return None
    words = Bm25Index.of(texts[place] for place in some)
    weights, names = unit(words.weights.toarray()), words.words.get_feature_names_out()
    group = KMeans(GROUPS, n_init=10, random_state=0).fit_predict(weights)
    telling = [weights[group == one].mean(axis=0) - weights.mean(axis=0) for one in range(GROUPS)]
    found: Record = {
        "group": group.tolist(),
        "words": [", ".join(names[place] for place in np.argsort(-each)[:3]) for each in telling],
    }
    first = None
    for time, rows in spaces.items():
        begin = "pca" if first is None else 1e-4 * first / first.std()
        plane = TSNE(metric="cosine", init=begin, random_state=0).fit_transform(rows)
        plane = plane - plane.mean(axis=0)
        first = plane if first is None else first
        plane = plane @ orthogonal_procrustes(plane, first)[0]
        low, high = plane.min(axis=0), plane.max(axis=0)
        found[time] = np.round((plane - low) / np.maximum(high - low, 1e-12), 3).tolist()
    return found


def map_figure(
    found: Mapping[str, Any], names: tuple[str, str] = ("before", "after")
) -> PageFigure:
    """The two maps of `text_map`, side by side, with the words of each colour below."""
    marks = []
    box = f'width="{SIDE - 1}" height="{SIDE - 1}" fill="none" stroke="{RULE}"'
    for left, time, name in zip((0, WIDTH - SIDE), ("before", "after"), names, strict=True):
        marks.append(f'<text x="{left}" y="16" fill="{INK}" font-size="14">{escape(name)}</text>')
        marks.append(f'<rect x="{left + 0.5}" y="{TOP + 0.5}" {box}/>')
        for (x, y), group in zip(found[time], found["group"], strict=True):
            place = f'cx="{left + EDGE + x * (SIDE - 2 * EDGE):.1f}" cy="{TOP + EDGE + y * (SIDE - 2 * EDGE):.1f}"'
            marks.append(f'<circle {place} r="2.6" fill="{SERIES[group]}"/>')
    for row, words in enumerate(found["words"]):
        low = TOP + SIDE + LINE * (row + 1)
        marks.append(f'<circle cx="{EDGE}" cy="{low - 5}" r="5" fill="{SERIES[row]}"/>')
        marks.append(
            f'<text x="{2.5 * EDGE}" y="{low}" fill="{INK}" font-size="14">{escape(words)}</text>'
        )
    drawn = svg_of(TOP + SIDE + LINE * len(found["words"]) + EDGE, marks)
    return PageFigure(
        "map", "Map of the texts", drawn, MAP_CAPTION.format(count=len(found["group"]))
    )
