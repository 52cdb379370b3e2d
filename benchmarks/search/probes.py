"""Two ways to change a search without any training, judged by labels: queries that move towards the
consensus of the model and BM25, and a bias against documents that are near to everything.

    # all cells; finished ones stay
    python -m benchmarks.search.probes CACHE --data DATA
    # cells whose names hold all these words
    python -m benchmarks.search.probes CACHE --data DATA --only minilm cacm

The consensus is that of GQR (https://arxiv.org/abs/2510.05038): at search time, a query's vector
moves by gradient steps until the model's distribution over the best documents is like its mean with
that of BM25. The bias is that of NNN (https://arxiv.org/abs/2410.24114): from each document's
cosine, a share of its mean cosine with the nearest reference queries is taken away, here
pseudo-queries of the documents. A cell is a model and a collection, as in
`benchmarks/search/teachers.py`. nDCG@10 × 100, one run.
"""

import argparse
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch.nn.functional import log_softmax, normalize, softmax

from benchmarks.paths import RESULTS
from benchmarks.search import choice
from benchmarks.search.teachers import BM25_SHARE, STUDENTS, Cell, VectorCache
from isotrope.encoder.embed import Vectors
from isotrope.evaluation.search import ScoreBlock, Search, fused
from isotrope.evaluation.significance import compare_means
from isotrope.store.files import write_json
from isotrope.text.bm25 import Bm25Index
from isotrope.training.processes import environment
from isotrope.types import Matrix, Vector

TARGET = RESULTS / "probes"
TEMPERATURE = 0.2  # of both distributions; this, the rate and the steps were chosen on CACM
BEST = 100  # documents of each search that the distributions are over
RATE = 0.001  # of the gradient steps
STEPS = (2, 5, 10)
NEIGHBOURS = 16  # reference queries of a document
BIASES = (0.25, 0.5, 1.0)  # shares of the mean cosine that are taken away


def moved_queries(queries: Matrix, documents: Matrix, words: ScoreBlock, steps: int) -> Matrix:
    """Queries (Q, D) after ``steps`` towards the consensus with scores by words (Q, M).

    Documents (M, D) and queries are unit rows.
    """
    keys = torch.from_numpy(documents).float()
    by_words = torch.from_numpy(fused([words], [1.0])).float()  # (Q, M), from 0 to 1
    start = torch.from_numpy(queries).float()
    cosines = start @ keys.T

    # The best documents of either search: the others have the weight 0.
    count = min(BEST, len(documents))
    is_best = torch.zeros_like(cosines, dtype=torch.bool)
    for scores in (cosines, by_words):
        is_best.scatter_(1, scores.topk(count).indices, True)
    outside = torch.where(is_best, 0.0, -torch.inf)
    target_by_words = softmax(by_words / TEMPERATURE + outside, dim=1)

    moved = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([moved], lr=RATE)
    for _ in range(steps):
        logits = normalize(moved) @ keys.T / TEMPERATURE + outside
        consensus = (softmax(logits.detach(), dim=1) + target_by_words) / 2
        log_shares = log_softmax(logits, dim=1).masked_fill(~is_best, 0.0)
        loss = -(consensus * log_shares).sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return np.asarray(normalize(moved.detach()).numpy(), dtype=np.float64)


def hub_bias(documents: Matrix, references: Matrix) -> Vector:
    """The mean cosine (M,) of each document (M, D) with its nearest reference queries (R, D)."""
    cosines = torch.from_numpy(documents @ references.T)
    return np.asarray(cosines.topk(NEIGHBOURS).values.mean(dim=1).numpy())


def unit(vectors: Vectors) -> Matrix:
    """Rows of length 1, in float64."""
    rows = np.asarray(vectors, dtype=np.float64)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def measure(cell: Cell) -> dict[str, Any]:
    """Each search by labels, alone and with BM25, against the model alone and against the model with
    BM25.
    """
    queries, corpus = cell.domain.queries, cell.domain.corpus
    query_vectors = unit(cell.student.encode_query(queries))
    vectors = unit(cell.student.encode_document(corpus))
    references = unit(cell.student.encode_query(cell.pseudo_queries.texts))
    words = Bm25Index.of(corpus).search(queries)(slice(None))
    cosines = query_vectors @ vectors.T  # (Q, M)

    scores = {"as it is": cosines}
    for steps in STEPS:
        moved = moved_queries(query_vectors, vectors, words, steps)
        scores[f"consensus, {steps} steps"] = moved @ vectors.T
    bias = hub_bias(vectors, references)
    for share in BIASES:
        scores[f"bias {share:g}"] = cosines - share * bias

    def ndcg(block: ScoreBlock) -> Vector:
        search: Search = block.__getitem__
        return cell.domain.score_search(search)

    alone = ndcg(cosines)
    hybrid = ndcg(fused([cosines, words], [1 - BM25_SHARE, BM25_SHARE]))
    record: dict[str, Any] = {}
    for name, block in scores.items():
        with_bm25 = ndcg(fused([block, words], [1 - BM25_SHARE, BM25_SHARE]))
        record[name] = {
            "alone": compared(alone, ndcg(block)),
            "with_bm25": compared(hybrid, with_bm25),
            "against_hybrid": compared(hybrid, ndcg(block)),
        }
    return record


def compared(before: Vector, after: Vector) -> dict[str, float]:
    """A paired comparison, in points."""
    comparison = compare_means(before, after)
    return {
        "labels": 100 * comparison.after,
        "gain": 100 * comparison.difference,
        "low": 100 * comparison.low,
        "high": 100 * comparison.high,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cache", type=Path)
    parser.add_argument("--data", required=True)
    parser.add_argument("--only", nargs="*", default=[])
    args = parser.parse_args()
    TARGET.mkdir(parents=True, exist_ok=True)
    console = Console()
    cache = VectorCache(args.cache)
    for student, collection in product(STUDENTS, choice.RETRIEVAL + choice.CLASSES):
        name = f"{student}-{collection.lower()}"
        path = TARGET / f"{name}.json"
        if path.is_file() or not all(word.lower() in name for word in args.only):
            continue
        cell = Cell(args.data, collection, student, "", cache)
        searches = measure(cell)
        record = {
            "student": student,
            "collection": collection,
            "documents": len(cell.domain.corpus),
            "queries": len(cell.domain.queries),
            "searches": searches,
            "environment": environment(),
        }
        write_json(path, record)
        console.print(
            name, {key: round(each["alone"]["gain"], 1) for key, each in searches.items()}
        )


if __name__ == "__main__":
    main()
