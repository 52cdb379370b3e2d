"""The texts that are nearest to a query, among those that `isotrope encode` wrote. Every vector is compared."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from sentence_transformers import SentenceTransformer
from torch import Tensor

from isotrope.console.plain import plain_console
from isotrope.console.progress import progress, watch
from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.embed import Vectors, vectors_of
from isotrope.encoder.prompts import ADDED, has_roles, role_prompt, used_prompt
from isotrope.encoding.models import encoder_checksum, first_vector, needs_a_model, opened, shown_name
from isotrope.encoding.rows import pieces_of
from isotrope.encoding.stored import Stored
from isotrope.errors import UserError, needs, one_of
from isotrope.text.opened import open as text_open
from isotrope.types import Encoder

PIECE = 1 << 24  # numbers in memory: of vectors, and of cosines
_TINY = 1e-30  # a vector of zeros has the cosine 0 to all


@dataclass(frozen=True, slots=True)
class Hit:
    """A row that was found.

    Attributes:
        row: its number in the input of `isotrope.encode`, from 0.
        cosine: to the query, from -1 to 1.
        fields: its text, under ``text``, and its kept columns; no text for an OUT.npy whose texts were not named.
    """

    row: int
    cosine: float
    fields: Mapping[str, Any]


def search(
    index: str | Path,
    queries: Sequence[str] | str,
    *,
    model: str | Path | Encoder | None = None,
    top: int = 10,
    engine: str = "exact",
    texts: Any = None,
    text: str | None = None,
    query_prompt: str | None = None,
    device: str | None = None,
    console: Console | None = None,
) -> list[list[Hit]]:
    """Find the rows whose vectors have the largest cosines to each query, with one piece of the vectors in memory.

    Args:
        index: what `isotrope.encode` wrote: OUT.npy, OUT.parquet or a folder.
        queries: a text, or several.
        model: what `isotrope.encode` had; by default the one that the index names. Its pooling and its prompt are read
            from the index.
        top: rows for each query, the nearest first. A row whose vector is no number is never found.
        engine: ``exact`` (torch) or ``faiss`` (its flat index). Both find the same rows, to rounding.
        texts: what was encoded, for an OUT.npy: it holds no texts.
        text: their column of the sentences, in tables.
        query_prompt: words before each query; by default the model's prompt for queries, else its default prompt.
        device: where the model runs.
        console: where a progress bar and notes are shown; None: nowhere.

    Returns:
        For each query its hits, at most ``top``.

    Raises:
        UserError: the index was made with another model, is not finished or damaged; a query is empty; faiss is not
            installed; the texts are not those of the index.
    """
    shown = console or plain_console(quiet=True)
    queries = _checked([queries] if isinstance(queries, str) else list(queries))
    if isinstance(top, bool) or not isinstance(top, int) or top < 1:
        raise UserError(f"top = {top!r} is impossible", "choose a whole number from 1")
    if engine not in ENGINES:
        raise UserError(f"engine = {engine!r} is unknown", one_of(engine, ENGINES))
    if engine == "faiss":
        needs("faiss", "faiss")
    stored = Stored(index)
    if texts is not None and stored.path.suffix != ".npy":
        raise UserError(f"{stored.path} holds its texts", "leave out texts")
    made_from = stored.manifest["made_from"] if stored.manifest else {}
    if model is None:
        if stored.manifest is None:
            raise UserError(f"{stored.path} does not say which model made it", "name it with --model")
        model = str(stored.manifest["model"])
    name = shown_name(model)
    with watch("loading the model", shown):
        options = {key: made_from.get(key) for key in ("pooling", "normalize")} if isinstance(model, str | Path) else {}
        encoder = opened(model, {**options, "device": device})
        if stored.manifest is None:
            shown.print(f"{stored.path} does not say which model made it: the cosines mean something only for that one")
            if texts is None:
                shown.print(f"{stored.path} holds no texts: name their files with --texts")
        elif not _fits(encoder, made_from):
            problem = f"{stored.path} was made with another model than {name} (it was {stored.manifest['model']})"
            raise UserError(problem, "name that one, or encode the texts again")
        vectors = _query_vectors(encoder, queries, query_prompt)  # (Q, D)
    if vectors.shape[1] != stored.dimension:
        problem = f"{name} gives {vectors.shape[1]} dimensions, {stored.path} has {stored.dimension}"
        raise UserError(problem, "name the model that made it")
    if query_prompt is None and made_from.get("prompt") and not _query_words(encoder):
        shown.print(f"the texts have the prompt {made_from['prompt']!r}, the queries none: see --query-prompt")
    with progress("searched", stored.rows, shown) as bar:
        cosines, rows = _search(torch.from_numpy(vectors).float(), stored, top, ENGINES[engine], bar.advance)
    found = set(rows.flatten().tolist())
    fields = stored.fields(found)
    if texts is not None:
        fields = {row: {"text": line, **fields[row]} for row, line in _texts(texts, text, found, stored)}
    return [
        [Hit(row, cosine, fields[row]) for row, cosine in zip(*pair, strict=True)]
        for pair in zip(rows.tolist(), cosines.tolist(), strict=True)
    ]


Nearest = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]


def exact(queries: Tensor, vectors: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Unit queries (Q, D), unit vectors (n, D) -> the largest cosines (Q, count), the largest first, and their rows."""
    cosines, rows = (queries @ vectors.T).topk(count)
    return cosines, rows


def with_faiss(queries: Tensor, vectors: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """As `exact`, by faiss."""
    faiss = needs("faiss", "faiss")
    flat = faiss.IndexFlatIP(vectors.shape[1])
    flat.add(vectors.numpy())
    cosines, rows = flat.search(queries.numpy(), count)
    return torch.from_numpy(cosines), torch.from_numpy(rows)


ENGINES: Mapping[str, Nearest] = {"exact": exact, "faiss": with_faiss}


def _search(
    queries: Tensor, stored: Stored, top: int, nearest: Nearest, advance: Callable[[int], None]
) -> tuple[Tensor, Tensor]:
    """Queries (Q, D) -> the best cosines (Q, top) of all rows, and these rows."""
    queries, start = F.normalize(queries), 0
    cosines, rows = queries.new_empty(len(queries), 0), torch.empty(len(queries), 0, dtype=torch.int64)
    for piece in stored.pieces(max(1, PIECE // max(queries.shape))):
        vectors = torch.from_numpy(piece)  # (n, D)
        finite = vectors.isfinite().all(dim=1).nonzero()[:, 0]  # NaN would be the largest of all
        vectors = vectors[finite]
        vectors /= vectors.norm(dim=1, keepdim=True).clamp_min(_TINY)
        if not len(vectors):
            start += len(piece)
            continue
        more, places = nearest(queries, vectors, min(top, len(vectors)))
        cosines, rows = torch.cat([cosines, more], dim=1), torch.cat([rows, finite[places] + start], dim=1)
        cosines, order = cosines.sort(dim=1, descending=True, stable=True)  # of equal ones the earlier piece's first
        cosines, rows = cosines[:, :top], rows.gather(1, order)[:, :top]
        start += len(piece)
        advance(len(piece))
    return cosines, rows


def _checked(queries: list[str]) -> list[str]:
    if not all(map(str.strip, queries or [""])):
        raise UserError("a query is empty" if queries else "there is no query", "write some words")
    for query in queries:
        if query.encode("utf-8", "replace").decode() != query:
            raise UserError(f"the query {query!r:.80} is not UTF-8 text", "write it in UTF-8")
    return queries


def _texts(texts: Any, text: str | None, rows: set[int], stored: Stored) -> Iterator[tuple[int, str]]:
    """These rows and their texts."""
    count = 0
    for _, piece in pieces_of(text_open(texts, text=text)):
        column = piece.column(0)
        yield from ((count + row, column[row].as_py()) for row in range(len(column)) if count + row in rows)
        count += len(column)
    if count != stored.rows:
        problem = f"the texts have {count:,} rows, {stored.path} has {stored.rows:,}"
        raise UserError(problem, "name the files that were encoded, in the same order")


def _fits(encoder: Encoder, made_from: Mapping[str, Any]) -> bool:
    """Whether an encoder made an output. The prompt of the texts counts in the checksum, under the name that it had."""
    words, checksum = made_from.get("prompt") or "", made_from.get("model")
    if not isinstance(encoder, SentenceTransformer):
        return encoder_checksum(encoder, first_vector(encoder)) == checksum
    own = encoder.prompts
    tried = [(own, name) for name in dict.fromkeys([encoder.default_prompt_name, None, *own])]
    for prompts, name in [*tried, ({**own, ADDED: words}, ADDED)]:
        with _prompts(encoder, prompts, name):
            if used_prompt(encoder) == words and model_checksum(encoder) == checksum:
                return True
    return False


def _query_vectors(encoder: Encoder, queries: list[str], prompt: str | None) -> Vectors:
    """Queries (Q,) -> (Q, D)."""
    if prompt is None:
        return vectors_of(encoder, queries, batch_size=64, role="query")
    if not isinstance(encoder, SentenceTransformer):
        raise needs_a_model("query_prompt", prompt)
    with _prompts(encoder, {**encoder.prompts, "query": prompt}, None):
        return vectors_of(encoder, queries, batch_size=64, role="query")


def _query_words(encoder: Encoder) -> str:
    if not isinstance(encoder, SentenceTransformer):
        return ""
    return role_prompt(encoder, "query") if has_roles(encoder) else used_prompt(encoder)


@contextmanager
def _prompts(encoder: SentenceTransformer, prompts: Mapping[str, str], default: str | None) -> Iterator[None]:
    """Give a model these prompts for a while."""
    before = encoder.prompts, encoder.default_prompt_name
    encoder.prompts, encoder.default_prompt_name = dict(prompts), default
    try:
        yield
    finally:
        encoder.prompts, encoder.default_prompt_name = before
