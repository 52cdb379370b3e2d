"""The texts that are nearest to a query, among those that `isotrope encode` wrote. Every vector is
compared.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from sentence_transformers import SentenceTransformer
from torch import Tensor

from isotrope.console.plain import plain_console
from isotrope.console.progress import progress, watch
from isotrope.encoder.embed import Vectors, vectors_of
from isotrope.encoder.prompts import role_prompt, used_prompt
from isotrope.encoding.encode import check_counts, opened
from isotrope.encoding.output import Stored
from isotrope.encoding.rows import pieces_of
from isotrope.encoding.tasks import encoder_checksum, shown_name
from isotrope.errors import UserError, check_known, needs, printable
from isotrope.evaluation.search import Search, fused
from isotrope.text import read_text
from isotrope.text.bm25 import Bm25Index
from isotrope.types import Encoder

PIECE = 1 << 24  # numbers in memory: of vectors, and of cosines
_TINY = 1e-30  # a vector of zeros has the cosine 0 to all


@dataclass(frozen=True, slots=True)
class Hit:
    """A row that was found."""

    row: int  # its number in the input of `isotrope.encode`, from 0
    cosine: float  # to the query, from -1 to 1
    # what orders the hits: the cosine, or with ``hybrid`` its sum with BM25, from 0 to 1
    score: float
    # its ``text`` and its kept columns; no text for an OUT.npy whose texts were not named
    fields: Mapping[str, Any]


def search(
    index: str | Path,
    queries: Sequence[str] | str,
    *,
    model: str | Path | Encoder | None = None,
    top: int = 10,
    engine: str = "exact",
    hybrid: float = 0.0,
    texts: Any = None,
    text: str | None = None,
    query_prompt: str | None = None,
    device: str | None = None,
    console: Console | None = None,
) -> list[list[Hit]]:
    """Find the rows whose vectors have the largest cosines to each query, with one piece of the
    vectors in memory.

    Args:
        index: what `isotrope.encode` wrote: OUT.npy, OUT.parquet or a folder.
        queries: a text, or several.
        model: what `isotrope.encode` had; by default the one that the index names. The index knows
            its pooling.
        top: rows for each query, the nearest first. A row whose vector is no number is never found.
        engine: ``exact`` (torch) or ``faiss`` (its flat index). Both find the same rows, to
            rounding.
        hybrid: the share of BM25 in the score, from 0 to 1; the cosine is the rest. Each is scaled
            to 0 … 1 for a query before they are added (`isotrope.evaluation.retrieval.fused`). All
            texts are then in memory.
        texts: what was encoded, for an OUT.npy, which holds no texts.
        text: their column of the sentences, in tables.
        query_prompt: words before each query; by default the model's prompt for queries, else its
            default prompt.
        device: where the model runs.
        console: where a progress bar and notes are shown; None: nowhere.

    Returns:
        For each query its hits, at most ``top``.

    Raises:
        UserError: the index was made with another model, is not finished or damaged; a query is
            empty; faiss is not installed; the texts are not those of the index.
    """
    shown = console or plain_console(quiet=True)
    queries = [queries] if isinstance(queries, str) else list(queries)
    for query in queries or [""]:
        if not query.strip() or printable(query) != query:
            raise UserError(
                f"the query {query!r:.80} is empty, or is not UTF-8 text",
                "write some words in UTF-8",
            )
    check_counts(top=top)
    check_known("engine =", engine, ENGINES)
    if not 0 <= hybrid <= 1:
        raise UserError(
            f"hybrid = {hybrid} is not possible", "choose BM25's share of the score, from 0 to 1"
        )
    if engine == "faiss" and needs("faiss", "faiss") and hybrid:
        raise UserError("faiss cannot add BM25 to its search", "leave out engine or hybrid")
    stored = Stored(index)
    if hybrid and texts is None and stored.path.suffix == ".npy":
        raise UserError(
            f"{stored.path} holds no texts, which BM25 needs", "name their files with --texts"
        )
    made_from = stored.manifest["made_from"] if stored.manifest else {}
    if model is None:
        if stored.manifest is None:
            raise UserError(
                f"{stored.path} does not say which model made it", "name it with --model"
            )
        model = str(stored.manifest["model"])
    options: dict[str, Any] = {"device": device}
    if isinstance(model, str | Path):
        options |= {key: made_from.get(key) for key in ("pooling", "normalize")}
    elif not isinstance(model, SentenceTransformer):
        options["query_prompt"] = query_prompt  # which it cannot read
    with watch("loading the model", shown):
        encoder = opened(model, options)
        if stored.manifest is None:
            shown.print(
                f"{stored.path} does not say which model made it: the cosines mean something only for that one"
            )
            if texts is None:
                shown.print(f"{stored.path} holds no texts: name their files with --texts")
        vectors = _query_vectors(encoder, queries, query_prompt)  # (Q, D)
        known = stored.manifest is None or encoder_checksum(encoder) == made_from.get("model")
        if not known or vectors.shape[1] != stored.dimension:
            was = (
                f" (it was {stored.manifest['model']})"
                if stored.manifest
                else f", of {stored.dimension} dimensions"
            )
            problem = f"{stored.path} was made with another model than {shown_name(model)}{was}"
            raise UserError(problem, "name that one, or encode the texts again")
    if (
        query_prompt is None
        and made_from.get("prompt")
        and not (role_prompt(encoder, "query") or used_prompt(encoder))
    ):
        shown.print(
            f"the texts have the prompt {made_from['prompt']!r}, the queries none: see --query-prompt"
        )
    asked = F.normalize(torch.from_numpy(vectors).float())
    with progress("searched", stored.rows, shown) as bar:
        if hybrid:
            every = range(stored.rows)
            lines = (
                stored.texts()
                if texts is None
                else [line for _, line in _texts(texts, text, every, stored)]
            )
            words = Bm25Index.of(lines).search(queries)
            cosines, rows, scores = _hybrid(asked, stored, top, words, hybrid, bar.advance)
        else:
            cosines, rows = _search(asked, stored, top, ENGINES[engine], bar.advance)
            scores = cosines
    found = set(rows.flatten().tolist())
    fields = stored.fields(found)
    if texts is not None:
        fields = {
            row: {"text": line, **fields[row]} for row, line in _texts(texts, text, found, stored)
        }
    return [
        [
            Hit(row, cosine, score, fields[row])
            for row, cosine, score in zip(*hits, strict=True)
            if score > -np.inf
        ]
        for hits in zip(rows.tolist(), cosines.tolist(), scores.tolist(), strict=True)
    ]


# Unit queries (Q, D), unit vectors (n, D), count -> the largest cosines (Q, count), the largest
# first; their rows.
Nearest = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]


def _exact(queries: Tensor, vectors: Tensor, count: int) -> tuple[Tensor, Tensor]:
    cosines, rows = (queries @ vectors.T).topk(count)
    return cosines, rows


def _by_faiss(queries: Tensor, vectors: Tensor, count: int) -> tuple[Tensor, Tensor]:
    flat = needs("faiss", "faiss").IndexFlatIP(vectors.shape[1])
    flat.add(vectors.numpy())
    cosines, rows = flat.search(queries.numpy(), count)
    return torch.from_numpy(cosines), torch.from_numpy(rows)


ENGINES: Mapping[str, Nearest] = {"exact": _exact, "faiss": _by_faiss}


def _search(
    queries: Tensor, stored: Stored, top: int, nearest: Nearest, advance: Callable[[int], None]
) -> tuple[Tensor, Tensor]:
    """Unit queries (Q, D) -> the best cosines (Q, top) of all rows, and these rows."""
    start, cosines, rows = (
        0,
        queries.new_empty(len(queries), 0),
        torch.empty(len(queries), 0, dtype=torch.int64),
    )
    for piece in stored.pieces(max(1, PIECE // max(queries.shape))):
        vectors, finite = _unit(piece)
        if len(vectors):
            more, places = nearest(queries, vectors, min(top, len(vectors)))
            cosines, rows = (
                torch.cat([cosines, more], dim=1),
                torch.cat([rows, finite[places] + start], dim=1),
            )
            # of equal ones the earlier piece's
            cosines, order = cosines.sort(dim=1, descending=True, stable=True)
            cosines, rows = cosines[:, :top], rows.gather(1, order)[:, :top]
        start += len(piece)
        advance(len(piece))
    return cosines, rows


def _hybrid(
    queries: Tensor,
    stored: Stored,
    top: int,
    words: Search,
    share: float,
    advance: Callable[[int], None],
) -> tuple[Tensor, Tensor, Tensor]:
    """Unit queries (Q, D) -> cosines, rows and scores (Q, top) of the best rows by `fused`, which
    needs all cosines.
    """
    parts, step = [], max(1, PIECE // stored.rows)
    for begin in range(0, len(queries), step):
        some = slice(begin, begin + step)
        cosines, start = np.full((len(queries[some]), stored.rows), np.nan, dtype=np.float32), 0
        for piece in stored.pieces(max(1, PIECE // stored.dimension)):
            vectors, finite = _unit(piece)
            cosines[:, start + finite] = queries[some] @ vectors.T
            start += len(piece)
            advance(len(piece) * len(queries[some]) // len(queries))
        unknown = np.isnan(cosines)
        # what is no number does not scale the others
        least = np.where(unknown, 1, cosines).min(axis=1, keepdims=True)
        total = fused([np.where(unknown, least, cosines), words(some)], [1 - share, share])
        scores, rows = torch.from_numpy(np.where(unknown, -np.inf, total)).topk(
            min(top, stored.rows)
        )
        parts.append((torch.from_numpy(cosines).gather(1, rows), rows, scores))
    best, found, order = map(torch.cat, zip(*parts, strict=True))
    return best, found, order


def _unit(vectors: Vectors) -> tuple[Tensor, Tensor]:
    """Vectors (n, D) -> unit vectors of those that are numbers, and their places: NaN would be
    nearest to all.
    """
    every = torch.from_numpy(vectors)
    finite = every.isfinite().all(dim=1).nonzero()[:, 0]
    kept = every[finite]
    return kept / kept.norm(dim=1, keepdim=True).clamp_min(_TINY), finite


def _texts(
    texts: Any, text: str | None, rows: Container[int], stored: Stored
) -> Iterator[tuple[int, str]]:
    count = 0
    for _, piece in pieces_of(read_text(texts, text_column=text)):
        column = piece.column(0)
        yield from (
            (count + row, column[row].as_py()) for row in range(len(column)) if count + row in rows
        )
        count += len(column)
    if count != stored.rows:
        problem = f"the texts have {count:,} rows, {stored.path} has {stored.rows:,}"
        raise UserError(problem, "name the files that were encoded, in the same order")


def _query_vectors(encoder: Encoder, queries: list[str], prompt: str | None) -> Vectors:
    if prompt is not None and isinstance(encoder, SentenceTransformer):
        asked = copy(encoder)  # the user's model keeps its own
        asked.prompts, asked.default_prompt_name = {**encoder.prompts, "query": prompt}, None
        encoder = asked
    return vectors_of(encoder, queries, batch_size=64, role="query")
