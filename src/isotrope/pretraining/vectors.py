"""Word vectors from co-occurrence counts: the warm start of the token embeddings."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from isotrope.console.progress import watch
from isotrope.errors import UserError
from isotrope.pretraining.recipe import Recipe
from isotrope.pretraining.text import SPECIAL, START, Ids
from isotrope.store.cache import cached

Array = np.ndarray[Any, np.dtype[np.float32]]
TOKENS_AT_A_TIME = 2_000_000


def cooccurrence(ids: np.ndarray[Any, Any], vocabulary: int, window: int) -> Any:
    """How often two tokens stand at most `window` places apart in one sentence: symmetric CSR (V, V), float32.

    ids (T,) is a row of sentences that each begin with [CLS]; special tokens are not counted.
    """
    counts = sparse.csr_matrix((vocabulary, vocabulary), dtype=np.float32)
    for start in range(0, len(ids), TOKENS_AT_A_TIME):
        # the next chunk's first tokens come along, so that no pair is lost at the seam
        chunk = np.asarray(ids[start : start + TOKENS_AT_A_TIME + window]).astype(np.int32)
        sentence = np.cumsum(chunk == START)
        lefts, rights = [], []
        for distance in range(1, window + 1):
            left, right = chunk[:TOKENS_AT_A_TIME][: len(chunk) - distance], chunk[distance:]
            right = right[: len(left)]
            together = sentence[: len(left)] == sentence[distance : distance + len(left)]
            together &= (left >= len(SPECIAL)) & (right >= len(SPECIAL))
            lefts.append(left[together])
            rights.append(right[together])
        row, column = np.concatenate(lefts), np.concatenate(rights)
        ones = np.ones(len(row), dtype=np.float32)
        counts += sparse.coo_matrix((ones, (row, column)), shape=counts.shape).tocsr()
    return (counts + counts.T).tocsr()


def ppmi(counts: Any, smoothing: float = 0.75) -> Any:
    """Positive pointwise mutual information max(0, log p(a, b) / (p(a) p_s(b))) of counts (V, V), CSR to CSR.

    p_s ∝ p^smoothing damps the weight of rare contexts (Levy, Goldberg and Dagan 2015,
    https://aclanthology.org/Q15-1016, section 3.1).
    """
    row = np.asarray(counts.sum(axis=1), dtype=np.float64).ravel()  # (V,)
    context = row**smoothing / (row**smoothing).sum()
    pairs = counts.tocoo()
    information = np.log(pairs.data / (row[pairs.row] * context[pairs.col]))
    kept = information > 0
    data = information[kept].astype(np.float32)
    return sparse.csr_matrix((data, (pairs.row[kept], pairs.col[kept])), shape=counts.shape)


def factorise(matrix: Any, dimensions: int, seed: int) -> Array:
    """Rows U √S of the truncated singular value decomposition of a sparse (V, V): vectors (V, dimensions)."""
    left, values, _ = randomized_svd(matrix, n_components=dimensions, n_iter=4, random_state=seed)
    vectors: Array = (left * np.sqrt(values)).astype(np.float32)
    return vectors


def warm_embeddings(ids: np.ndarray[Any, Any], cold: Array, window: int, scale: float, seed: int) -> Array:
    """Token embeddings (V, D) from the corpus ids (T,): factorised PPMI, with root mean square `scale`.

    Tokens without a vector (special ones, tokens that never occur) keep their row of `cold` (V, D).
    """
    vectors = factorise(ppmi(cooccurrence(ids, len(cold), window)), cold.shape[1], seed)
    known = np.linalg.norm(vectors, axis=1) > 1e-6  # (V,)
    vectors *= scale / np.sqrt(np.mean(vectors[known] ** 2))
    return np.where(known[:, None], vectors, cold).astype(np.float32)


def prepare_vectors(folder: Path, blocks: Ids, cold: Array, recipe: Recipe, seed: int, console: Console) -> Array:
    """Token embeddings (V, D) to begin from: `warm_embeddings` of blocks (B, L) and of random ones, ``cold`` (V, D)."""
    if len(cold) < cold.shape[1]:
        problem = f"the text has {len(cold)} different tokens, too few for word vectors of width {cold.shape[1]}"
        raise UserError(problem, "give more text, or a cold start")

    def make(draft: Path) -> None:
        with watch("factorising the co-occurrences", console):
            found = warm_embeddings(blocks.reshape(-1), cold, recipe.window, recipe.vector_scale, seed)
        np.save(draft / "vectors.npy", found)

    vectors: Array = np.load(cached(folder, make) / "vectors.npy")
    return vectors
