"""A teacher's embeddings of a corpus in one memory-mapped file: written once, shard by shard, and found again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import xxhash
from torch import Tensor

from isotrope.console.progress import tell
from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.store.cache import cache_folder, cached
from isotrope.store.disk import check_space
from isotrope.store.mark import DRAFT
from isotrope.store.rows import GrowingArray
from isotrope.teachers._model import TeacherEncoder
from isotrope.text.sample import RowIds
from isotrope.types import Batch

_LAYOUT = 2  # version of the file's layout; part of the key
TEACHER_SHARD = 4096  # between two points from which a killed pass goes on
VECTORS = "vectors.npy"


@dataclass(frozen=True, slots=True)
class CorpusEmbeddings:
    """The embeddings of a corpus, or of those of its rows that a run visits."""

    vectors: npt.NDArray[np.float32]  # (R, T) unit rows, mapped
    rows: RowIds | None  # (R,) rising; None: row i is place i

    @classmethod
    def open(cls, encoder: TeacherEncoder, context: BuildContext) -> CorpusEmbeddings:
        """Find them in the cache, or encode the corpus; of several processes one does, the others wait.

        The key is a checksum of the model, its settings, the corpus and the rows. What a killed pass had done counts in
        the next.
        """
        corpus, rows = context.needed("corpus"), visited(context)
        key = cache_key(_LAYOUT, encoder.key(), corpus.key, rows)
        folder = cached(cache_folder("teachers", key), lambda draft: _write(draft, key, encoder, context, rows))
        return cls(np.load(folder / VECTORS, mmap_mode="r"), rows)

    @property
    def width(self) -> int:
        """T."""
        return int(self.vectors.shape[1])

    def __call__(self, batch: Batch) -> Tensor:
        """(N, T) for the batch's rows, on their device."""
        places = places_of(batch.rows, self.rows, len(self.vectors))
        return torch.from_numpy(self.vectors[places]).to(batch.rows.device)


def visited(context: BuildContext) -> RowIds | None:
    """The rows that a run visits, rising as `places_of` needs them; None: all of the corpus."""
    rows = None if context.rows is None else np.unique(context.rows)
    return None if rows is not None and len(rows) == len(context.needed("corpus")) else rows


def cache_key(layout: int, teacher: str, corpus: str, rows: RowIds | None) -> str:
    """A checksum of all that decides what a teacher keeps of a corpus."""
    chosen = "all" if rows is None else xxhash.xxh3_128_hexdigest(rows.tobytes())
    return xxhash.xxh3_128_hexdigest(json.dumps([layout, teacher, corpus, chosen]).encode())


def places_of(wanted: Tensor, rows: RowIds | None, count: int) -> RowIds:
    """Where the rows (N,) of a corpus lie among the ``count`` rows that are kept: (N,)."""
    asked = wanted.cpu().numpy()
    places = asked if rows is None else rows.searchsorted(asked)
    inside = (places >= 0) & (places < count)
    if rows is not None:
        inside &= rows[np.where(inside, places, 0)] == asked
    if not inside.all():
        problem = f"the teacher has no embedding of row {asked[~inside][0]}"
        raise UserError(problem, "let 'label' hold row numbers, and open the teacher with all rows of the run")
    return places


def _write(folder: Path, key: str, encoder: TeacherEncoder, context: BuildContext, rows: RowIds | None) -> None:
    """Fill an empty folder. The array grows beside it, so that the next call goes on after a kill."""
    corpus = context.needed("corpus")
    count = len(corpus) if rows is None else len(rows)
    array = GrowingArray(folder.with_name(f".{key}.vectors{DRAFT}"), count, encoder.dim)
    begun = array.rows_written(TEACHER_SHARD)
    needed = 4 * encoder.dim * (count - begun)  # bytes
    check_space(folder, needed, f"the array of the teacher {encoder.name}", "free some, or use live = true")
    for start in range(begun, count, TEACHER_SHARD):
        context.progress(encoder.name, start, count)
        places = np.arange(start, min(start + TEACHER_SHARD, count))
        texts = corpus.texts(places if rows is None else rows[places])

        def told(done: int, start: int = start) -> None:
            tell(f"encoded by {encoder.name}", start + done, count)

        array.append(start, encoder(texts, told).numpy())  # (≤ S, T)
    context.progress(encoder.name, count, count)
    array.finish(folder / VECTORS)
