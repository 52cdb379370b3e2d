"""The shape of an embedding space: do neighbours lie together, does the whole spread out, is there
a common direction?

Alignment and uniformity: Wang and Isola, ICML 2020, https://arxiv.org/abs/2005.10242 (their α = 2,
t = 2), as SimCSE (Gao et al., 2021, section 5, https://arxiv.org/abs/2104.08821) uses them on
STS-B. Mean cosine: Ethayarajh, EMNLP 2019, https://arxiv.org/abs/1909.00512, whose measure of
anisotropy it is.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import entr

from isotrope.errors import UserError
from isotrope.evaluation.results import Indices, Result
from isotrope.evaluation.sets.graded_pairs import GradedPairs, embed_pairs
from isotrope.types import Encoder, Matrix, Vector

VectorsLike = npt.ArrayLike | torch.Tensor

# of the scale: STS-B pairs with a score above 4 of 5 are positives (Gao et al., 2021)
POSITIVE_ABOVE = 0.8
BANDS = 5  # of gold scores, of one width, as RankCSE Fig. 5 has STS-B
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_BLOCK = 512  # rows at a time: 20,000 rows take 80 MB a block, not 3.2 GB


def alignment(x: VectorsLike, y: VectorsLike) -> float:
    """Mean squared distance of positives x (N, D) and y (N, D) on the unit sphere, in [0, 4]; lower
    is better.

    Raises UserError for shapes that differ, and for rows without a direction.
    """
    anchors = _directions(x)
    positives = _directions(y)
    if anchors.shape != positives.shape:
        raise UserError(
            f"alignment of shapes {anchors.shape} and {positives.shape}",
            "give one positive for each row",
            code="unequal-shapes",
        )
    squared_distances = np.sum((anchors - positives) ** 2, axis=1)  # (N,)
    return float(np.mean(squared_distances))


def diversity(views: Sequence[VectorsLike]) -> float:
    """Mean `alignment` over all pairs of views (N, D) of the same sentences: ours, for
    WhitenedCSE's Figure 1d.
    """
    alignments = [alignment(x, y) for x, y in combinations(views, 2)]
    return float(np.mean(alignments))


def disturbance(z: VectorsLike, whitened: VectorsLike) -> float:
    """‖ε‖ / ‖Z‖ for features Z and whitened features Z + ε (N, D), both centred: WhitenedCSE Eq.
    11, ε = (W − 1) Z.
    """
    before = _centred(z)
    change = _centred(whitened) - before  # ε
    return float(np.linalg.norm(change) / np.linalg.norm(before))


def uniformity(x: VectorsLike) -> float:
    """Log of the mean exp(−2 · squared distance) over pairs i < j of x (N, D) on the unit sphere;
    lower is better.
    """
    directions = _directions(x, at_least=2)
    count = len(directions)
    total = 0.0
    for start in range(0, count, _BLOCK):
        block = directions[start : start + _BLOCK]

        # ‖u − v‖² = 2 − 2·u·v. Columns begin at the block's first row: (B, N − start).
        cosines = block @ directions[start:].T
        kernel = np.exp(4.0 * cosines - 4.0)

        # Pairs i < j are above the diagonal.
        total += float(np.triu(kernel, 1).sum())
    pair_count = count * (count - 1) / 2
    return float(np.log(total / pair_count))


def mean_cosine(x: VectorsLike) -> float:
    """Mean cosine over pairs i < j of x (N, D): 0 for an isotropic space, 1 for a collapsed one."""
    directions = _directions(x, at_least=2)
    count = len(directions)
    sum_of_directions = directions.sum(axis=0)  # (D,)

    # ‖Σu‖² = N + 2 · the sum over pairs
    twice_the_sum = sum_of_directions @ sum_of_directions - count
    return float(twice_the_sum / (count * (count - 1)))


def pair_geometry(encoder: Encoder, pairs: GradedPairs) -> Result:
    """The geometry of an encoder on any scored pairs (`read_pairs`), ready for JSON.

    "alignment" is that of the "positives", the pairs with a score above four fifths of the scale;
    None without any. "bands" counts pairs by score and cosine (`cosine_bands`). All else is
    taken over the distinct "sentences": "effective_rank" and "spectrum" are those of the
    covariance of their unit vectors, the spectrum as shares, largest first.
    """
    embeddings = embed_pairs(encoder, [pairs])
    vectors = embeddings.vectors  # (S, D) of the distinct sentences
    shares = variance_shares(unit(vectors))

    low, high = gold_scale(pairs.gold)
    is_positive = pairs.gold > low + POSITIVE_ABOVE * (high - low)
    positives = pairs.rows(np.flatnonzero(is_positive))
    aligned = None
    if len(positives):
        first = embeddings.encode(positives.first)
        aligned = alignment(first, embeddings.encode(positives.second))

    return {
        "alignment": aligned,
        "uniformity": uniformity(vectors),
        "mean_cosine": mean_cosine(vectors),
        "iso_score": iso_score(vectors),
        "effective_rank": effective_rank(shares),
        "positives": len(positives),
        "sentences": len(embeddings.texts),
        "bands": cosine_bands(pairs.gold, pairs.similarities(embeddings)),
        "spectrum": shares.tolist(),
    }


def cosine_bands(gold: Vector, cosines: Vector) -> list[dict[str, Any]]:
    """Distribution of cosines (N,) in each of five bands of gold (N,), lowest first: RankCSE Fig.
    5.

    Each has "band" ("0–1" … "4–5") and "pairs"; one with pairs also has "mean", "sd" and
    "quantiles" ("0.05" … "0.95").
    """
    bands = []
    for label, rows in gold_bands(gold):
        values = cosines[rows]
        band: dict[str, Any] = {"band": label, "pairs": len(values)}
        if len(values):
            band["mean"] = float(values.mean())
            band["sd"] = float(values.std())
            quantiles = np.quantile(values, QUANTILES).tolist()
            band["quantiles"] = dict(zip(map(str, QUANTILES), quantiles, strict=True))
        bands.append(band)
    return bands


def gold_scale(gold: Vector) -> tuple[float, float]:
    """The scale that scores (N,) seem to be on: 0–1, 0–5, or from the lowest (0 if none is
    below) to the highest.
    """
    low = float(gold.min())
    high = float(gold.max())
    if low < 0:
        return low, high
    if high <= 1:
        return 0.0, 1.0
    return 0.0, max(5.0, high)


def gold_bands(gold: Vector) -> list[tuple[str, Indices]]:
    """Five bands of the scale of gold (N,), lowest first: a label, and the rows of its pairs (n,).

    A pair is in one band; the last is closed.
    """
    low, high = gold_scale(gold)

    # Rounded, so that a score of 0.6 is on the edge 0.6, not below it.
    edges = np.linspace(low, high, BANDS + 1).round(12)
    places = np.searchsorted(edges, gold, side="right")
    band_of = np.clip(places - 1, 0, BANDS - 1)  # (N,)

    bands = []
    for band, (lower, upper) in enumerate(pairwise(edges)):
        label = f"{lower:.3g}–{upper:.3g}"
        bands.append((label, np.flatnonzero(band_of == band)))
    return bands


def by_gold_band(
    gold: Vector, cosines: Mapping[str, Vector]
) -> list[tuple[str, dict[str, Vector]]]:
    """Cosines by band of gold (N,), lowest first: (label, {name: (n,)}); see `gold_bands`."""
    bands = []
    for label, rows in gold_bands(gold):
        cosines_in_band = {name: values[rows] for name, values in cosines.items()}
        bands.append((label, cosines_in_band))
    return bands


def unit(vectors: npt.ArrayLike) -> Matrix:
    """Rows of (N, D) divided by their norm, a zero row left as it is."""
    rows = np.asarray(vectors, dtype=np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    directions = np.divide(rows, norms, out=rows.copy(), where=norms > 0)
    return np.asarray(directions)


def variance_shares(rows: Matrix) -> Vector:
    """Eigenvalues of the covariance of rows (N, D), largest first, as shares of their sum ->
    (min(D, N − 1),).
    """
    singular_values = np.linalg.svd(_centred(rows), compute_uv=False)
    count = min(rows.shape[1], len(rows) - 1)  # centring takes one dimension of N away
    variances = singular_values[:count] ** 2
    total = max(variances.sum(), np.finfo(float).tiny)
    return np.asarray(variances / total)


def effective_rank(shares: Vector) -> float:
    """Exponential of the entropy of shares (K,): so many equal directions spread as much (Roy and
    Vetterli, 2007).
    """
    entropy = entr(shares).sum()
    return float(np.exp(entropy))


def iso_score(rows: npt.ArrayLike) -> float:
    """IsoScore of rows (N, D): 0 if they are equal or vary along one direction, 1 if equally
    along all D.

    Rudman et al., Findings of ACL 2022, https://aclanthology.org/2022.findings-acl.262, Algorithm
    1. Its steps come down to (P − 1) / (D − 1), where P = (Σλ)² / Σλ² is the participation ratio of
    the variances λ along the principal axes: k for k equal directions. With fewer than about ten
    rows a dimension it comes out too low.
    """
    vectors = np.asarray(rows, dtype=np.float64)
    if not np.ptp(vectors, axis=0).any():
        return 0.0

    shares = variance_shares(vectors)
    participation = 1 / np.sum(shares**2)
    return float((participation - 1) / (vectors.shape[1] - 1))


def _centred(x: VectorsLike) -> Matrix:
    rows = np.asarray(x, dtype=np.float64)
    return np.asarray(rows - rows.mean(axis=0))


def _directions(x: VectorsLike, at_least: int = 1) -> Matrix:
    """`unit` of at least so many rows, each of which has a direction."""
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu().double().numpy()
    rows = np.asarray(x, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < at_least:
        raise UserError(
            f"embeddings of shape {rows.shape}",
            f"give at least {at_least} row(s): shape (N, D)",
            code="wrong-shape",
        )

    norms = np.linalg.norm(rows, axis=1)
    has_direction = np.isfinite(norms) & (norms > 0)
    if not has_direction.all():
        row = np.flatnonzero(~has_direction)[0]
        raise UserError(
            f"embedding row {row} is zero or not finite",
            "it has no direction: leave it out",
            code="no-direction",
        )
    return unit(rows)
