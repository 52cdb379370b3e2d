"""Embeddings of files of any size: a row out for each row in, in constant memory, resumable after a kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xxhash
from sentence_transformers import SentenceTransformer

from isotrope.bulk.output import Manifest, Npy, Parts, Vectors, clear, destination, writing
from isotrope.encoder import load
from isotrope.encoder.checksum import model_checksum
from isotrope.errors import UserError
from isotrope.text.files import LONGEST_LINE, TextFile, content_checksum, find_sources
from isotrope.text.readers import Columns, rows
from isotrope.types import Encoder

PROBE = "A first sentence shows the dimension of the vectors."
BATCHES = 16  # handed to sentence-transformers in one call, between two reports of progress
SHARD_CHARACTERS = 1 << 26  # a shard ends early here, so that rows of whole books fit into memory too


def encode(
    model: str | Path | Encoder,
    files: Sequence[str | Path] | str | Path,
    output: str | Path,
    *,
    text: str | None = None,
    batch_size: int = 64,
    shard: int = 50_000,
    pooling: str | None = None,
    normalize: bool | None = None,
    device: str | None = None,
    progress: Callable[[int], None] | None = None,
    resume: bool = True,
) -> Path:
    """Embed every row of the files, in order, with at most one shard of text and vectors in memory.

    There is one row out for each row in: nothing is cleaned away, and a blank line or a null is the empty sentence,
    which the encoder embeds like any other. Equal sentences of a shard are encoded once. The output is

    - ``OUT.npy``: one float32 array (N, D);
    - ``OUT.parquet``: columns ``text`` and ``embedding`` (a fixed-size list of float32), a row group a shard;
    - a folder: such Parquet files, ``part-00000.parquet`` …, and ``manifest.json`` with rows, dimension, model and key.

    A file appears only whole, in place of an older one; until then its shards lie in ``OUT.npy.parts/`` or
    ``OUT.parquet.parts/``. After a kill, Ctrl-C or a full disk the same call goes on after the last whole shard.

    Args:
        model: what `isotrope.load` takes, or an object with ``encode(list[str]) -> (n, D)``, which is handed
            ``batch_size`` sentences at a time (a sentence-transformers model sixteen times as many, to batch itself).
        files: files or folders (.txt, .jsonl, .csv, .tsv, .parquet; the first four also .gz, .xz, .zst).
        output: where to; its folder must exist.
        text: the column of the sentences in tables; see `isotrope.text.readers.Columns.choose` for the default.
        batch_size: sentences a forward pass; changes the vectors by rounding alone.
        shard: rows between two points from which a stopped call can go on.
        pooling: as in `isotrope.load`, and so are the next two; they need the name of a model.
        normalize: end with unit rows or not.
        device: where the model runs.
        progress: called with the number of rows done so far, of them all.
        resume: False begins anew, whatever is there.

    Returns:
        The path of the output.

    Raises:
        UserError: anything wrong with model, files (with file and line), output or encoder (with the row), and shards
            that were begun with another model, other files or other options.
    """
    for name, value in (("batch_size", batch_size), ("shard", shard)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UserError(f"{name} = {value!r} is impossible", "choose a whole number from 1")
    store = destination(output)
    sources = _sources([files] if isinstance(files, str | Path) else files, Path(output))
    encoder = _encoder(model, pooling, normalize, device)
    probe = _encode(encoder, [PROBE], batch_size)  # (1, D)
    made_from = {
        "output": Path(output).suffix if store.whole else "folder",
        "text": text,
        "pooling": pooling,
        "normalize": normalize,
        "shard": shard,
        "model": _model_checksum(encoder, probe),
        "files": content_checksum(sources, ""),
    }
    with writing(store):
        manifest = Manifest.read(store.folder)
        if not resume:
            clear(store.folder)
            manifest = None
        if manifest is None:
            count = sum(1 for _ in _texts(sources, text))  # all of the input is checked before the long work
            if not count:
                raise UserError(f"{sources[0].path} has a header and no row", "give a file with sentences")
            name = str(model) if isinstance(model, str | Path) else _class_name(model)
            manifest = Manifest(count, probe.shape[1], name, made_from)
            manifest.save(store.folder)
        manifest.check(store.folder, made_from)
        if not store.holds(manifest):
            raise UserError(f"{store.folder} lacks some of its shards", f"delete {store.folder} to begin anew")
        _go_on(manifest, store, _texts(sources, text), encoder, batch_size, progress or (lambda done: None))
        return store.finish(manifest)


def _sources(files: Sequence[str | Path], output: Path) -> list[TextFile]:
    place = output.resolve()
    for path in map(Path, files):
        if place.is_relative_to(path.resolve()):  # it would be read as input by the next call, or replace its input
            raise UserError(f"output {output} lies in the input {path}", "write elsewhere")
    return find_sources(files)


def _encoder(model: str | Path | Encoder, pooling: str | None, normalize: bool | None, device: str | None) -> Encoder:
    if isinstance(model, str | Path):
        encoder: Encoder = load(model, pooling, normalize=normalize, device=device)
        return encoder
    for name, value in (("pooling", pooling), ("normalize", normalize), ("device", device)):
        if value is not None:
            raise UserError(f"{name} = {value!r} needs the name of a model", f"give {name} to isotrope.load instead")
    if not isinstance(model, Encoder):
        raise UserError(f"{model!r:.80} is no encoder", "give a model's name or an object with encode(list[str])")
    return model


def _model_checksum(encoder: Encoder, probe: Vectors) -> str:
    """Of the weights, the configuration and the tokenizer; of an unknown encoder, its class and a vector (1, D)."""
    if not isinstance(encoder, SentenceTransformer):
        return xxhash.xxh3_128_hexdigest(_class_name(encoder).encode() + probe.astype(np.float16).tobytes())
    return model_checksum(encoder)


def _class_name(encoder: object) -> str:
    return f"{type(encoder).__module__}.{type(encoder).__qualname__}"


def _texts(sources: list[TextFile], text: str | None) -> Iterator[str]:
    """Every row's sentence, as it is: without the line's end, and empty for a blank line or a null."""
    for source in sources:
        for line, (field,) in rows(source, Columns(text)):
            sentence = field or ""
            if source.format == ".txt":
                sentence = sentence.removesuffix("\n").removesuffix("\r")
            try:
                size = len(sentence.encode())
            except UnicodeEncodeError as error:
                problem = f"{source.path}:{line} holds what is not UTF-8 text"
                raise UserError(problem, "convert the file to UTF-8 or correct the line") from error
            if source.format == ".txt" and size >= LONGEST_LINE:  # the reader has cut it
                raise UserError(f"{source.path}:{line} is longer than {LONGEST_LINE} bytes", "break the line")
            yield sentence


def _go_on(
    manifest: Manifest,
    store: Parts | Npy,
    texts: Iterator[str],
    encoder: Encoder,
    batch_size: int,
    progress: Callable[[int], None],
) -> None:
    """Shard after shard, from the first that is not yet whole."""
    texts = islice(texts, manifest.done, None)
    while manifest.done < manifest.rows:
        sentences = _next_shard(texts, manifest.made_from["shard"])  # n sentences
        if not sentences or manifest.done + len(sentences) > manifest.rows:
            raise UserError("the files have changed while they were read", f"delete {store.folder} to begin anew")
        vectors = _shard_vectors(encoder, sentences, batch_size, manifest, progress)  # (n, D)
        store.append(manifest, sentences, vectors)
        manifest.done += len(sentences)
        manifest.shards += 1
        manifest.save(store.folder)  # from here on the shard counts
    progress(manifest.done)


def _next_shard(texts: Iterator[str], size: int) -> list[str]:
    shard: list[str] = []
    characters = 0
    while len(shard) < size and characters < SHARD_CHARACTERS and (text := next(texts, None)) is not None:
        shard.append(text)
        characters += len(text)
    return shard


def _shard_vectors(
    encoder: Encoder, sentences: list[str], batch_size: int, manifest: Manifest, progress: Callable[[int], None]
) -> Vectors:
    """Sentences (n,) -> (n, D), each distinct one encoded once, the longest first so that little is padding."""
    distinct = sorted(set(sentences), key=lambda sentence: (-len(sentence), sentence))
    vectors = np.empty((len(distinct), manifest.dimension), np.float32)
    step = batch_size * BATCHES if isinstance(encoder, SentenceTransformer) else batch_size
    for start in range(0, len(distinct), step):
        progress(manifest.done + len(sentences) * start // len(distinct))
        chunk = distinct[start : start + step]
        found = _encode(encoder, chunk, batch_size)
        wrong = np.flatnonzero(~np.isfinite(found).all(axis=1))
        if len(wrong):
            sentence = chunk[wrong[0]]
            row = manifest.done + sentences.index(sentence)
            problem = f"encode() gave NaN or infinity for row {row} (counted from 0), {sentence[:80]!r}"
            raise UserError(problem, "check the model's weights and precision")
        if found.shape[1] != manifest.dimension:
            problem = f"encode() gave {found.shape[1]} dimensions after {manifest.dimension}"
            raise UserError(problem, "return vectors of one dimension")
        vectors[start : start + step] = found
    place = {sentence: i for i, sentence in enumerate(distinct)}
    return np.asarray(vectors[[place[sentence] for sentence in sentences]])


def _encode(encoder: Encoder, sentences: list[str], batch_size: int) -> Vectors:
    """Sentences (n,) -> float32 (n, D), D > 0."""
    if isinstance(encoder, SentenceTransformer):
        output: Any = encoder.encode(sentences, batch_size=batch_size, show_progress_bar=False)
    else:
        output = encoder.encode(sentences)
    try:
        if isinstance(output, torch.Tensor):
            output = output.detach().float().cpu().numpy()
        vectors = np.asarray(output, np.float32)
    except (TypeError, ValueError) as error:
        problem = f"encode() gave a {type(output).__name__} that is no array of numbers"
        raise UserError(problem, "return one vector a sentence") from error
    if vectors.ndim != 2 or len(vectors) != len(sentences) or not vectors.size:
        remedy = f"return one vector a sentence: shape ({len(sentences)}, dimensions)"
        raise UserError(f"encode() gave shape {vectors.shape} for {len(sentences)} sentences", remedy)
    return vectors
