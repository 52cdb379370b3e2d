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
from isotrope.types import Matrix, Vector

SENTENCES = 6  # whose neighbours are shown
NEIGHBOURS = 3  # of each
MAPPED = 300  # texts on a map, at most
FEWEST_MAPPED = 50  # different vectors: with fewer there is no map
GROUPS = 5  # of texts on a map, each in its colour
GROUP_WORDS = 3  # that are shown for a group
SIDE = 192  # of a map
TITLE_HEIGHT = 24  # above a map
LINE_HEIGHT = 20  # of its legend
MAP_CAPTION = (
    "Each point is one of {count} texts, and near points have similar vectors (t-SNE, cosine). "
    "Texts of one colour share words, which no model decided: below are the words that mark each "
    "colour."
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
        return cls(pair_cosines(rows), variance_shares(rows), _nearest(rows))


def _nearest(rows: Matrix) -> list[list[tuple[int, float]]]:
    """The nearest other rows of the first unit rows (N, D), with their cosines."""
    cosines = rows[:SENTENCES] @ rows.T  # (SENTENCES, N)
    np.fill_diagonal(cosines, -np.inf)
    count = min(NEIGHBOURS, len(rows) - 1)
    order = np.argsort(-cosines, axis=1, kind="stable")
    neighbours = order[:, :count]
    neighbour_cosines = np.take_along_axis(cosines, neighbours, axis=1)

    nearest = []
    for row_numbers, values in zip(neighbours.tolist(), neighbour_cosines.tolist(), strict=True):
        nearest.append(list(zip(row_numbers, values, strict=True)))
    return nearest


def pair_cosines(rows: npt.NDArray[np.float64]) -> Vector:
    """Cosines of all pairs i < j of unit rows (N, D) -> (N (N − 1) / 2,)."""
    cosines = rows @ rows.T
    above_diagonal = np.triu_indices(len(rows), 1)
    return np.asarray(cosines[above_diagonal])


def neighbour_tables(sample: Sequence[str], seen: Mapping[str, Space]) -> list[Table]:
    """The first sentences of the sample, each with its nearest others before and after. No table
    without a space.
    """
    if not seen:
        return []
    rows = []
    for row_number, sentence in enumerate(sample[:SENTENCES]):
        cells = [sentence]
        for space in seen.values():
            lines = [f"{cosine:.3f} {sample[row]}" for row, cosine in space.nearest[row_number]]
            cells.append("\n".join(lines))
        rows.append(cells)
    note = (
        f"The first sentences of a random sample of {len(sample)} from the corpus, not picked by "
        "hand, each with its nearest others in the sample and their cosine."
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
    mapped = evenly(len(texts), MAPPED)
    rows_before = unit(before)[mapped]
    rows_after = unit(after)[mapped]
    if min(_distinct(rows_before), _distinct(rows_after)) < FEWEST_MAPPED:
        return None

    groups, words = _word_groups([texts[place] for place in mapped])
    plane_before = _plane(rows_before, "pca")

    # A small copy of the first map begins the second, so that equal parts stay where they are.
    plane_after = _plane(rows_after, 1e-4 * plane_before / plane_before.std())
    rotation, _ = orthogonal_procrustes(plane_after, plane_before)
    return {
        "group": groups.tolist(),
        "words": words,
        "before": _in_unit_square(plane_before),
        "after": _in_unit_square(plane_after @ rotation),
    }


def _distinct(rows: Matrix) -> int:
    """How many rows differ, but for rounding."""
    return len(np.unique(rows.round(6), axis=0))


def _word_groups(texts: Sequence[str]) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The group of each text by its words (N,), and the words that mark each group."""
    index = Bm25Index.of(texts)
    weights = unit(index.weights.toarray())  # (N, V)
    names = index.words.get_feature_names_out()
    groups = KMeans(GROUPS, n_init=10, random_state=0).fit_predict(weights)

    words = []
    for group in range(GROUPS):
        # Words with more weight in this group than in all texts.
        in_group = groups == group
        excess = weights[in_group].mean(axis=0) - weights.mean(axis=0)
        columns = np.argsort(-excess)[:GROUP_WORDS]
        words.append(", ".join(names[columns]))
    return groups, words


def _plane(rows: Matrix, start: str | Matrix) -> Matrix:
    """t-SNE of unit rows (N, D) on a plane around 0: (N, 2)."""
    tsne = TSNE(metric="cosine", init=start, random_state=0)
    plane = tsne.fit_transform(rows)
    return np.asarray(plane - plane.mean(axis=0))


def _in_unit_square(plane: Matrix) -> list[list[float]]:
    """Points (N, 2), scaled to 0 … 1 in both directions."""
    low = plane.min(axis=0)
    high = plane.max(axis=0)
    span = np.maximum(high - low, 1e-12)
    scaled = (plane - low) / span
    points: list[list[float]] = scaled.round(3).tolist()
    return points


def map_figure(text_map: Mapping[str, Any]) -> PageFigure:
    """The two maps of `text_map`, side by side, with the words of each colour below."""
    marks = [
        *_map_marks("before", 0, text_map["before"], text_map["group"]),
        *_map_marks("after", WIDTH - SIDE, text_map["after"], text_map["group"]),
    ]
    for line, words in enumerate(text_map["words"], start=1):
        base = TITLE_HEIGHT + SIDE + LINE_HEIGHT * line
        marks.append(f'<circle cx="{EDGE}" cy="{base - 5}" r="5" fill="{SERIES[line - 1]}"/>')
        marks.append(_label(2.5 * EDGE, base, words))

    height = TITLE_HEIGHT + SIDE + LINE_HEIGHT * len(text_map["words"]) + EDGE
    caption = MAP_CAPTION.format(count=len(text_map["group"]))
    return PageFigure("map", "Map of the texts", svg_of(height, marks), caption)


def _map_marks(
    name: str, left: int, points: Sequence[tuple[float, float]], groups: Sequence[int]
) -> list[str]:
    """One map: its name, its frame, and a dot for each point (x, y) from 0 to 1."""
    marks = [
        _label(left, 16, name),
        f'<rect x="{left + 0.5}" y="{TITLE_HEIGHT + 0.5}" width="{SIDE - 1}" '
        f'height="{SIDE - 1}" fill="none" stroke="{RULE}"/>',
    ]
    scale = SIDE - 2 * EDGE
    for (x, y), group in zip(points, groups, strict=True):
        across = left + EDGE + x * scale
        down = TITLE_HEIGHT + EDGE + y * scale
        colour = SERIES[group]
        marks.append(f'<circle cx="{across:.1f}" cy="{down:.1f}" r="2.6" fill="{colour}"/>')
    return marks


def _label(left: float, base: float, text: str) -> str:
    return f'<text x="{left}" y="{base}" fill="{INK}" font-size="14">{escape(text)}</text>'
