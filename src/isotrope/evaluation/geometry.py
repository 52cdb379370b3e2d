"""The shape of an embedding space: do neighbours lie together, does the whole spread out, is there a common direction?

Alignment and uniformity: Wang and Isola, ICML 2020, https://arxiv.org/abs/2005.10242 (their α = 2, t = 2), as SimCSE
(Gao et al., 2021, section 5, https://arxiv.org/abs/2104.08821) uses them on STS-B. Mean cosine: Ethayarajh, EMNLP 2019,
https://arxiv.org/abs/1909.00512, whose measure of anisotropy it is.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from isotrope.data.senteval import load_sts
from isotrope.errors import UserError
from isotrope.evaluation.embed import Embedded, Encoder

Rows = npt.ArrayLike | torch.Tensor

POSITIVE = 4.0  # STS-B pairs with a score above this are positives (Gao et al., 2021)
_BLOCK = 512  # rows at a time: 20,000 rows take 80 MB a block, not 3.2 GB


def alignment(x: Rows, y: Rows) -> float:
    """Mean squared distance of positives x (N, D) and y (N, D) on the unit sphere, in [0, 4]; lower is better.

    Raises UserError for shapes that differ, and for a row that is zero or not finite.
    """
    a, b = _unit(x), _unit(y)
    if a.shape != b.shape:
        raise UserError(f"alignment of shapes {a.shape} and {b.shape}", "give one positive for each row")
    return float(np.mean(np.sum((a - b) ** 2, axis=1)))


def uniformity(x: Rows) -> float:
    """Log of the mean of exp(−2 · squared distance) over pairs i < j of x (N, D) on the unit sphere; lower is better.

    Exact, in blocks: memory grows with N, not with N². Raises UserError for fewer than two rows, and for a row that is
    zero or not finite.
    """
    a = _unit(x, at_least=2)
    total = 0.0
    for start in range(0, len(a), _BLOCK):
        block = a[start : start + _BLOCK]
        kernel = np.exp(4.0 * (block @ a[start:].T) - 4.0)  # ‖u − v‖² = 2 − 2·u·v: (block, N − start)
        # Columns begin at the block's own first row: pairs i < j lie above the diagonal.
        total += float(np.sum(np.triu(kernel[:, : len(block)], 1)) + np.sum(kernel[:, len(block) :]))
    return float(np.log(total / (len(a) * (len(a) - 1) / 2)))


def mean_cosine(x: Rows) -> float:
    """Mean cosine over pairs i < j of x (N, D): 0 for an isotropic space, 1 for a collapsed one.

    Raises UserError for fewer than two rows, and for a row that is zero or not finite.
    """
    a = _unit(x, at_least=2)
    n, common = len(a), a.sum(axis=0)
    return float((common @ common - n) / (n * (n - 1)))  # ‖Σu‖² = n + 2 · sum over pairs


def evaluate_geometry(encoder: Encoder, data: str | Path | None) -> dict[str, dict[str, float]]:
    """Alignment of STS-B dev pairs with a gold score above 4; uniformity and mean cosine of its distinct sentences."""
    pairs = load_sts(data, "STSBenchmark", ("dev",))["dev"]
    embedded = Embedded(encoder, (*pairs.first, *pairs.second))
    close = pairs.gold > POSITIVE
    first, second = embedded(pairs.first)[close], embedded(pairs.second)[close]
    measures = {
        "alignment": alignment(first, second),
        "uniformity": uniformity(embedded.vectors),
        "mean_cosine": mean_cosine(embedded.vectors),
    }
    return {"STSBenchmark": {**measures, "positives": int(close.sum()), "sentences": len(embedded.sentences)}}


def _unit(x: Rows, at_least: int = 1) -> npt.NDArray[np.float64]:
    """Rows of x (N, D) divided by their norm, in float64."""
    plain = x.detach().cpu().double().numpy() if isinstance(x, torch.Tensor) else np.asarray(x, dtype=np.float64)
    if plain.ndim != 2 or len(plain) < at_least:
        raise UserError(f"embeddings of shape {plain.shape}", f"give at least {at_least} row(s): shape (N, D)")
    norms = np.linalg.norm(plain, axis=1, keepdims=True)
    wrong = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
    if len(wrong):
        raise UserError(f"embedding row {wrong[0]} is zero or not finite", "it has no direction: leave it out")
    return np.asarray(plain / norms, dtype=np.float64)
