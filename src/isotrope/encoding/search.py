"""The texts that are nearest to a query, among those that `isotrope encode` wrote.

Every vector is compared, by the model's own similarity.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import cos_sim
from torch import Tensor

from isotrope.console.plain import plain_console
from isotrope.console.progress import progress, watch
from isotrope.encoder.embed import vectors_of
from isotrope.encoder.prompts import role_prompt, used_prompt
from isotrope.encoding.index import VectorStore
from isotrope.encoding.model import (
    LoadOptions,
    ModelLike,
    encoder_checksum,
    model_name,
    open_model,
)
from isotrope.errors import UserError, printable
from isotrope.evaluation.search import Search, fused
from isotrope.text.bm25 import Bm25Index
from isotrope.types import Encoder

PIECE = 1 << 24  # numbers in memory: of vectors, and of scores

# Queries (Q, D), vectors (N, D) -> (Q, N), the nearest with the largest number.
Similarity = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Hit:
    """A row that was found."""

    row: int  # its number in the input of `isotrope.encode`, from 0
    similarity: float  # to the query, by the model's function; a cosine is from -1 to 1
    # What orders the hits: the similarity, or with ``hybrid`` its sum with BM25, from 0 to 1.
    score: float
    fields: Mapping[str, Any]  # its ``text`` and its kept columns


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best rows of each query, the best first."""

    rows: Tensor  # (Q, top)
    similarities: Tensor  # (Q, top)
    scores: Tensor  # (Q, top)


def search(
    index: str | Path,
    queries: Sequence[str] | str,
    *,
    model: ModelLike | None = None,
    top: int = 10,
    hybrid: float = 0.0,
    query_prompt: str | None = None,
    device: str | None = None,
    console: Console | None = None,
) -> list[list[Hit]]:
    """Find the rows that are nearest to each query, with one piece of the vectors in memory.

    Near is what the model's own similarity says: the cosine, the dot product, or a distance.

    Args:
        index: what `isotrope.encode` wrote: OUT.parquet or a folder.
        queries: a text, or several.
        model: what `isotrope.encode` had; by default the one that the index names. The index knows
            its pooling.
        top: rows for each query, the nearest first.
        hybrid: the share of BM25 in the score, from 0 to 1; the similarity is the rest. Each is
            scaled to 0 … 1 for a query before they are added (`isotrope.evaluation.search.fused`).
            All texts are then in memory.
        query_prompt: words before each query; by default the model's prompt for queries, otherwise
            its default prompt.
        device: where the model runs.
        console: where a progress bar and notes are shown; None: nowhere.

    Returns:
        For each query its hits, at most ``top``.

    Raises:
        UserError: the index was made with another model, is not finished or damaged; a query is
            empty.
    """
    console = console or plain_console(quiet=True)
    queries = [queries] if isinstance(queries, str) else list(queries)
    _check_arguments(queries, top, hybrid)
    store = VectorStore(index)

    with watch("loading the model", console):
        encoder = _open_model(store, model, query_prompt, device)
        query_vectors = _query_vectors(encoder, queries, query_prompt)  # (Q, D)
        _check_model(store, encoder, model)
    _note_missing_prompt(store, encoder, query_prompt, console)

    similarity = encoder.similarity if isinstance(encoder, SentenceTransformer) else cos_sim
    with progress("searched", store.rows, console) as bar:
        if hybrid:
            words = Bm25Index.of(store.texts()).search(queries)
            ranking = _rank_hybrid(
                query_vectors, store, top, similarity, words, hybrid, bar.advance
            )
        else:
            ranking = _rank(query_vectors, store, top, similarity, bar.advance)
    return _hits(ranking, store)


def _check_arguments(queries: Sequence[str], top: int, hybrid: float) -> None:
    for query in queries or [""]:
        if not query.strip() or printable(query) != query:
            problem = f"the query {query!r:.80} is empty, or is not UTF-8 text"
            raise UserError(problem, "write some words in UTF-8", "empty-query")
    if top < 1:
        problem = f"top = {top!r} is impossible"
        raise UserError(problem, "choose a whole number from 1", "below-one")
    if not 0 <= hybrid <= 1:
        problem = f"hybrid = {hybrid} is not possible"
        remedy = "choose BM25's share of the score, from 0 to 1"
        raise UserError(problem, remedy, "not-a-share")


def _open_model(
    store: VectorStore, model: ModelLike | None, query_prompt: str | None, device: str | None
) -> Encoder:
    if model is None:
        model = _model_of(store)
    identity = store.manifest.made_from
    if isinstance(model, str | Path):
        options = LoadOptions(identity.pooling, identity.normalize, device)
        return open_model(model, options)
    if query_prompt is not None and not isinstance(model, SentenceTransformer):
        problem = f"query_prompt = {query_prompt!r} needs a sentence-transformers model"
        raise UserError(problem, "leave it out", "option-of-a-model")
    return open_model(model, LoadOptions(device=device))


def _model_of(store: VectorStore) -> str:
    """The name or folder of the model that made an index."""
    manifest = store.manifest
    if manifest.model_folder is None:
        return manifest.model
    if Path(manifest.model_folder).is_dir():
        return manifest.model_folder
    problem = f"{store.path} was made with a loaded model, which this machine has no more"
    raise UserError(problem, "give it with model=", "model-is-gone")


def _check_model(store: VectorStore, encoder: Encoder, model: ModelLike | None) -> None:
    manifest = store.manifest
    if encoder_checksum(encoder) == manifest.made_from.model:
        return
    name = model_name(encoder if model is None else model)
    problem = f"{store.path} was made with another model than {name} (it was {manifest.model})"
    remedy = "name that one, or encode the texts again"
    raise UserError(problem, remedy, "another-model")


def _query_vectors(encoder: Encoder, queries: Sequence[str], prompt: str | None) -> Tensor:
    """Vectors (Q, D) of queries."""
    if prompt is not None and isinstance(encoder, SentenceTransformer):
        prompted = copy(encoder)  # the user's model keeps its own prompts
        prompted.prompts = {**encoder.prompts, "query": prompt}
        prompted.default_prompt_name = None
        encoder = prompted
    vectors = vectors_of(encoder, queries, batch_size=64, role="query")
    return torch.from_numpy(vectors).float()


def _note_missing_prompt(
    store: VectorStore, encoder: Encoder, query_prompt: str | None, console: Console
) -> None:
    text_prompt = store.manifest.made_from.prompt
    if not text_prompt or query_prompt is not None or not isinstance(encoder, SentenceTransformer):
        return
    if not role_prompt(encoder, "query") and not used_prompt(encoder):
        console.print(
            f"the texts have the prompt {text_prompt!r}, the queries none: see --query-prompt"
        )


def _rank(
    queries: Tensor,
    store: VectorStore,
    top: int,
    similarity: Similarity,
    advance: Callable[[int], None],
) -> Ranking:
    """Queries (Q, D) -> the best rows of all, by similarity."""
    rows = torch.empty(len(queries), 0, dtype=torch.int64)
    similarities = queries.new_empty(len(queries), 0)
    start = 0
    for piece in store.pieces(max(1, PIECE // max(queries.shape))):
        scores = similarity(queries, torch.from_numpy(piece))  # (Q, n)
        best = scores.topk(min(top, len(piece)))
        similarities = torch.cat([similarities, best.values], dim=1)
        rows = torch.cat([rows, best.indices + start], dim=1)

        # Among equal ones, those of the earlier piece come first.
        similarities, order = similarities.sort(dim=1, descending=True, stable=True)
        similarities = similarities[:, :top]
        rows = rows.gather(1, order)[:, :top]

        start += len(piece)
        advance(len(piece))
    return Ranking(rows, similarities, similarities)


def _rank_hybrid(
    queries: Tensor,
    store: VectorStore,
    top: int,
    similarity: Similarity,
    words: Search,
    share: float,
    advance: Callable[[int], None],
) -> Ranking:
    """Queries (Q, D) -> the best rows by `fused`, which needs all similarities of a query."""
    rankings = []
    step = max(1, PIECE // store.rows)
    for start in range(0, len(queries), step):
        block = slice(start, start + step)
        block_queries = queries[block]  # (B, D)
        pieces = []
        for piece in store.pieces(max(1, PIECE // store.dimension)):
            pieces.append(similarity(block_queries, torch.from_numpy(piece)))
            advance(len(piece) * len(block_queries) // len(queries))
        similarities = torch.cat(pieces, dim=1)  # (B, N)

        scores = fused([similarities.numpy(), words(block)], [1 - share, share])
        best = torch.from_numpy(scores).topk(min(top, store.rows))
        nearness = similarities.gather(1, best.indices)
        rankings.append(Ranking(best.indices, nearness, best.values))
    return Ranking(
        torch.cat([ranking.rows for ranking in rankings]),
        torch.cat([ranking.similarities for ranking in rankings]),
        torch.cat([ranking.scores for ranking in rankings]),
    )


def _hits(ranking: Ranking, store: VectorStore) -> list[list[Hit]]:
    fields = store.fields(ranking.rows.flatten().tolist())
    columns = (ranking.rows.tolist(), ranking.similarities.tolist(), ranking.scores.tolist())
    hits = []
    for rows, similarities, scores in zip(*columns, strict=True):
        ranked = zip(rows, similarities, scores, strict=True)
        hits.append([Hit(row, near, score, fields[row]) for row, near, score in ranked])
    return hits
