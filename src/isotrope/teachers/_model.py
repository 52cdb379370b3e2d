"""A model as a teacher, with its own tokenizer, pooling and length; its vectors of a corpus in one
mapped file.
"""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
import xxhash
from sentence_transformers import SentenceTransformer
from torch import Tensor

from isotrope.console.progress import tell
from isotrope.contract.context import BuildContext
from isotrope.encoder import load
from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.embed import vectors_of
from isotrope.encoder.pooling import POOLINGS
from isotrope.errors import UserError
from isotrope.store.cache import cache_folder, cached
from isotrope.store.files import DRAFT, check_space, move, write_behind
from isotrope.text.permutation import RowIds
from isotrope.types import Batch, Whole

INITIAL = "initial"  # the name of the student as it was before training

Pooling = Literal[("own", *POOLINGS)]  # type: ignore[valid-type]
TRAIN = "train"  # the length that the student reads in training
Length = Whole | Literal["train"]
Precision = Literal["fp32", "bf16"]

_LAYOUT = 3  # version of the file's layout; part of the key
TEACHER_SHARD = 4096  # rows between two points from which a killed pass goes on
VECTORS = "vectors.f32"


class TeacherEncoder:
    """Sentences -> unit rows in fp32, in the CPU's memory."""

    def __init__(self, encoder: SentenceTransformer, name: str, bf16: bool) -> None:
        self.encoder = encoder.float().eval().requires_grad_(False)
        self.name = name
        self.bf16 = bf16
        self.width = int(encoder.get_embedding_dimension() or 0)

    def __call__(self, texts: list[str], start: int = 0, count: int | None = None) -> Tensor:
        """Sentences (n,) -> (n, T). A progress bar counts them from ``start`` on, of ``count``."""

        def progress(done: int) -> None:
            tell(f"encoded by {self.name}", start + done, count or len(texts))

        # The run's own autocast must not reach in here: half precision makes ties, and a ranking
        # sees them.
        with torch.autocast(self.encoder.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            rows = vectors_of(self.encoder, texts, batch_size=64, progress=progress)
        return F.normalize(torch.from_numpy(rows), dim=-1)


@dataclass(frozen=True)
class TeacherModel:
    """A model as a preset names it."""

    stage = "teachers"
    model: str  # a folder, a hub name, ``isotrope/tiny``, or ``initial``
    # as in isotrope.load; "own": as the model declares it, mean for a bare encoder
    pooling: Pooling = "own"
    # tokens; 0: the model's own; "train": at most what the student reads in training
    max_length: Length = 0
    precision: Precision = "fp32"  # of the forward pass; embeddings and scores are fp32 always
    prompt: str | None = None  # words before every text; None: the model's default prompt

    def load(self, context: BuildContext) -> TeacherEncoder:
        pooling = None if self.pooling == "own" else self.pooling
        max_length = None if self.max_length in (0, TRAIN) else int(self.max_length)
        if self.model == INITIAL:
            self._refuse_own_settings()
            encoder = deepcopy(context.needed("student"))  # training does not reach the copy
            encoder.max_seq_length = max_length or encoder.max_seq_length
        else:
            encoder = load(self.model, pooling, max_length=max_length, prompt=self.prompt)

        if self.max_length == TRAIN:
            limit = int(context.needed("max_length"))
            encoder.max_seq_length = min(limit, encoder.max_seq_length or limit)
        return TeacherEncoder(encoder, self.model, self.precision == "bf16")

    def _refuse_own_settings(self) -> None:
        if self.pooling != "own" or self.prompt is not None:
            problem = "the teacher 'initial' has the student's pooling and prompt"
            raise UserError(problem, "leave out its own", code="initial-teacher")

    def width_in(self, context: BuildContext) -> int:
        """T, which the loaded model tells. For a term with a projection, which is made before the
        corpus is encoded.
        """
        return self.load(context).width


@dataclass(frozen=True, slots=True)
class FunctionTeacher:
    """A teacher made of a function: the rows of a batch -> (N, T)."""

    width: int  # T
    embed: Callable[[Batch], Tensor]

    def __call__(self, batch: Batch) -> Tensor:
        return self.embed(batch)


@dataclass(frozen=True, slots=True)
class RunRows:
    """The rows of a corpus that a run reads, for a teacher that keeps something of each."""

    corpus: Any
    rows: RowIds  # (R,) rising

    @classmethod
    def by(cls, context: BuildContext) -> Self:
        """All rows that the run may visit."""
        return cls.of(context.needed("corpus"), context.rows)

    @classmethod
    def read_by(cls, context: BuildContext) -> Self:
        """The rows that the run reads: few of a large corpus, if it reads a part of it once."""
        if context.rows_read is None:
            return cls.by(context)
        return cls.of(context.needed("corpus"), context.rows_read)

    @classmethod
    def of(cls, corpus: Any, rows: RowIds | None) -> Self:
        """These rows of a corpus; None: all."""
        if rows is None:
            return cls(corpus, np.arange(len(corpus)))
        return cls(corpus, np.unique(rows))

    def __len__(self) -> int:
        return len(self.rows)

    def key(self, layout: int, teacher: str) -> str:
        """A checksum of all that decides what the teacher keeps."""
        rows = xxhash.xxh3_128_hexdigest(self.rows.tobytes())
        described = json.dumps([layout, teacher, self.corpus.key, rows])
        return xxhash.xxh3_128_hexdigest(described.encode())

    def read(self, size: int, first: int = 0) -> Iterator[tuple[int, list[str]]]:
        """The texts from place ``first`` on, ``size`` at a time, with their first place."""
        for start in range(first, len(self), size):
            rows = self.rows[start : start + size]
            yield start, self.corpus.texts(rows)

    def places(self, batch_rows: Tensor) -> RowIds:
        """Where rows of the corpus (N,) are among those of the run: (N,)."""
        rows = batch_rows.cpu().numpy()
        places = self.rows.searchsorted(rows).clip(max=len(self) - 1)
        missing = rows[self.rows[places] != rows]
        if len(missing):
            problem = f"the teacher has no embedding of row {missing[0]}"
            remedy = "let 'label' hold row numbers, and open the teacher with all rows of the run"
            raise UserError(problem, remedy, code="unknown-row")
        return places


def encoded_once(encoder: TeacherEncoder, context: BuildContext) -> FunctionTeacher:
    """A teacher that looks up rows: found in the cache, or encoded; of several processes one
    encodes, the others wait.

    The key is a checksum of the model, its settings, the corpus and the rows. After a kill, whole
    shards count.
    """
    run_rows = RunRows.read_by(context)
    count = len(run_rows)
    row_bytes = 4 * encoder.width
    key = run_rows.key(_LAYOUT, model_checksum(encoder.encoder, encoder.bf16))

    def write(folder: Path) -> None:
        draft = folder.with_name(f".{key}.vectors{DRAFT}")
        written_rows = draft.stat().st_size // row_bytes if draft.exists() else 0
        first = written_rows // TEACHER_SHARD * TEACHER_SHARD  # only whole shards count
        name = f"the array of the teacher {encoder.name}"
        check_space(folder, row_bytes * (count - first), name, "free some, or use live = true")
        for start, texts in run_rows.read(TEACHER_SHARD, first):
            vectors = encoder(texts, start, count).numpy()  # (≤ S, T)
            written = vectors.astype("<f4").tobytes()
            write_behind(draft, start * row_bytes, written)
        move(draft, folder / VECTORS)

    folder = cached(cache_folder("teachers", key), write)
    vectors = np.memmap(folder / VECTORS, "<f4", "r").reshape(count, -1)
    return teacher_of_vectors(vectors, run_rows)


def teacher_of_vectors(
    vectors: npt.NDArray[np.float32],  # (R, T) unit rows
    run_rows: RunRows,
) -> FunctionTeacher:
    """A teacher that gives stored vectors; ``run_rows`` finds the places of a batch's rows."""

    def embed(batch: Batch) -> Tensor:
        places = run_rows.places(batch.rows)
        return torch.from_numpy(vectors[places]).to(batch.rows.device)

    return FunctionTeacher(vectors.shape[1], embed)
