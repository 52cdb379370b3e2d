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
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.sets.graded_pairs import GradedPairs
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
    """
    a, b = _directions(x), _directions(y)
    if a.shape != b.shape:
        raise UserError(
            f"alignment of shapes {a.shape} and {b.shape}", "give one positive for each row"
        )
    return float(np.mean(np.sum((a - b) ** 2, axis=1)))


def diversity(views: Sequence[VectorsLike]) -> float:
    """Mean `alignment` over all pairs of views (N, D) of the same sentences: ours, for
    WhitenedCSE's Figure 1d.
    """
    return float(np.mean([alignment(x, y) for x, y in combinations(views, 2)]))


def disturbance(z: VectorsLike, whitened: VectorsLike) -> float:
    """‖ε‖ / ‖Z‖ for features Z and whitened features Z + ε (N, D), both centred: WhitenedCSE Eq.
    11, ε = (W − 1) Z.
    """
    a, b = (
        rows - rows.mean(axis=0)
        for rows in (np.asarray(x, dtype=np.float64) for x in (z, whitened))
    )
    return float(np.linalg.norm(b - a) / np.linalg.norm(a))


def uniformity(x: VectorsLike) -> float:
    """Log of the mean exp(−2 · squared distance) over pairs i < j of x (N, D) on the unit sphere;
    lower is better.
    """
    a, total = _directions(x, at_least=2), 0.0
    for start in range(0, len(a), _BLOCK):
        block = a[start : start + _BLOCK]
        # ‖u − v‖² = 2 − 2·u·v: (block, N − start)
        kernel = np.exp(4.0 * (block @ a[start:].T) - 4.0)
        # Columns begin at the block's own first row: pairs i < j lie above the diagonal.
        total += float(
            np.sum(np.triu(kernel[:, : len(block)], 1)) + np.sum(kernel[:, len(block) :])
        )
    return float(np.log(total / (len(a) * (len(a) - 1) / 2)))


def mean_cosine(x: VectorsLike) -> float:
    """Mean cosine over pairs i < j of x (N, D): 0 for an isotropic space, 1 for a collapsed one."""
    a = _directions(x, at_least=2)
    n, common = len(a), a.sum(axis=0)
    return float((common @ common - n) / (n * (n - 1)))  # ‖Σu‖² = n + 2 · sum over pairs


def pair_geometry(encoder: Encoder, pairs: GradedPairs) -> dict[str, Any]:
    """The geometry of an encoder on any scored pairs (`read_pairs`), ready for JSON.

    "alignment" is that of the "positives", the pairs with a score above four fifths of the scale;
    None without any. "bands" are `cosine_bands`. All else is taken over the distinct "sentences":
    "effective_rank" and "spectrum" are those of the covariance of their unit vectors, the spectrum
    as shares, largest first.
    """
    known = Embeddings.of(encoder, (*pairs.first, *pairs.second))
    low, high = gold_scale(pairs.gold)
    close = pairs.gold > low + POSITIVE_ABOVE * (high - low)
    first, second = known.encode(pairs.first)[close], known.encode(pairs.second)[close]
    shares = variance_shares(unit(known.vectors))
    return {
        "alignment": alignment(first, second) if close.any() else None,
        "uniformity": uniformity(known.vectors),
        "mean_cosine": mean_cosine(known.vectors),
        "iso_score": iso_score(known.vectors),
        "effective_rank": effective_rank(shares),
        "positives": int(close.sum()),
        "sentences": len(known.texts),
        "bands": cosine_bands(pairs.gold, pairs.similarities(known)),
        "spectrum": shares.tolist(),
    }


def cosine_bands(gold: Vector, cosines: Vector) -> list[dict[str, Any]]:
    """Distribution of cosines (N,) in each of five bands of gold (N,), lowest first: RankCSE Fig.
    5.

    Each has "band" ("0–1" … "4–5") and "pairs"; one with pairs also has "mean", "sd" and
    "quantiles" ("0.05" … "0.95").
    """
    bands = []
    for label, some in by_gold_band(gold, {"": cosines}):
        values = some[""]
        bands.append({"band": label, "pairs": len(values)})
        if len(values):
            quantiles = {str(q): float(np.quantile(values, q)) for q in QUANTILES}
            bands[-1] |= {
                "mean": float(values.mean()),
                "sd": float(values.std()),
                "quantiles": quantiles,
            }
    return bands


def gold_scale(gold: Vector) -> tuple[float, float]:
    """The scale that scores (N,) seem to be on: 0–1, 0–5, or from the lowest (0 where none is
    below) to the highest.
    """
    low, high = min(0.0, float(gold.min())), float(gold.max())
    return low, high if low < 0 else 1.0 if high <= 1 else max(5.0, high)


def by_gold_band(
    gold: Vector, cosines: Mapping[str, Vector]
) -> list[tuple[str, dict[str, Vector]]]:
    """Cosines by band of gold (N,), lowest first: (label, {name: (n,)}). A pair is in one band; the
    last is closed.
    """
    # a score of 0.6 lies on the edge 0.6, not below it
    edges = np.linspace(*gold_scale(gold), BANDS + 1).round(12)
    band = np.clip(np.searchsorted(edges, gold, side="right") - 1, 0, BANDS - 1)  # (N,)
    labels = [f"{low:.3g}–{high:.3g}" for low, high in pairwise(edges)]
    return [
        (label, {name: of[band == i] for name, of in cosines.items()})
        for i, label in enumerate(labels)
    ]


def unit(vectors: npt.ArrayLike) -> Matrix:
    """Rows of (N, D) divided by their norm, a zero row left as it is."""
    rows = np.asarray(vectors, dtype=np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, norms, out=rows.copy(), where=norms > 0))


def variance_shares(rows: Matrix) -> Vector:
    """Eigenvalues of the covariance of rows (N, D), largest first, as shares of their sum ->
    (min(D, N − 1),).
    """
    values = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    values = values[: min(rows.shape[1], len(rows) - 1)]  # centring takes one dimension of N away
    return np.asarray(values / max(values.sum(), np.finfo(float).tiny))


def effective_rank(shares: Vector) -> float:
    """Exponential of the entropy of shares (K,): so many equal directions spread as much (Roy and
    Vetterli, 2007).
    """
    return float(np.exp(entr(shares).sum()))


def iso_score(rows: npt.ArrayLike) -> float:
    """IsoScore of rows (N, D): 0 where they are equal or vary along one direction, 1 where equally
    along all D.

    Rudman et al., Findings of ACL 2022, https://aclanthology.org/2022.findings-acl.262, Algorithm
    1. Its steps come down to (P − 1) / (D − 1), where P = (Σλ)² / Σλ² is the participation ratio of
      the variances λ along the principal
    axes: k for k equal directions. With fewer than about ten rows a dimension it comes out too low.
    """
    x = np.asarray(rows, dtype=np.float64)
    if not np.ptp(x, axis=0).any():
        return 0.0
    return float((1 / np.sum(variance_shares(x) ** 2) - 1) / (x.shape[1] - 1))


def _directions(x: VectorsLike, at_least: int = 1) -> Matrix:
    """`unit` of at least so many rows, each of which has a direction."""
    plain = (
        x.detach().cpu().double().numpy()
        if isinstance(x, torch.Tensor)
        else np.asarray(x, dtype=np.float64)
    )
    if plain.ndim != 2 or len(plain) < at_least:
        raise UserError(
            f"embeddings of shape {plain.shape}", f"give at least {at_least} row(s): shape (N, D)"
        )
    norms = np.linalg.norm(plain, axis=1)
    wrong = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
    if len(wrong):
        raise UserError(
            f"embedding row {wrong[0]} is zero or not finite", "it has no direction: leave it out"
        )
    return unit(plain)
