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
from isotrope.encoder.pooling import LAYERS
from isotrope.errors import UserError
from isotrope.store.cache import cache_folder, cached
from isotrope.store.files import DRAFT, check_space, move, write_behind
from isotrope.text.permutation import RowIds
from isotrope.types import Batch, Whole

INITIAL = "initial"  # the name of the student as it was before training

Pooling = Literal[("own", *LAYERS)]  # type: ignore[valid-type]
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
        self.name, self.bf16 = name, bf16
        self.width = int(encoder.get_embedding_dimension() or 0)

    def __call__(self, texts: list[str], start: int = 0, count: int | None = None) -> Tensor:
        """Sentences (n,) -> (n, T). A bar that watches is told that they are those from ``start``
        on, of ``count``.
        """

        def told(done: int) -> None:
            tell(f"encoded by {self.name}", start + done, count or len(texts))

        # The run's own autocast must not reach in here: half precision makes ties, and a ranking
        # sees them.
        with torch.autocast(self.encoder.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            rows = vectors_of(self.encoder, texts, batch_size=64, progress=told)
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
        if self.model != INITIAL:
            encoder = load(self.model, pooling, max_length=max_length, prompt=self.prompt)
        elif pooling is not None or self.prompt is not None:
            raise UserError(
                "the teacher 'initial' has the student's pooling and prompt", "leave out its own"
            )
        else:
            # which the student's training does not reach
            encoder = deepcopy(context.needed("student"))
            encoder.max_seq_length = max_length or encoder.max_seq_length
        if self.max_length == TRAIN:
            limit = int(context.needed("max_length"))
            encoder.max_seq_length = min(limit, encoder.max_seq_length or limit)
        return TeacherEncoder(encoder, self.model, self.precision == "bf16")

    def width_in(self, context: BuildContext) -> int:
        """T, which the loaded model tells. For a term with a projection, which is made before the
        corpus is encoded.
        """
        return self.load(context).width


@dataclass(frozen=True, slots=True)
class Taught:
    """A teacher made of a function: the rows of a batch -> (N, T)."""

    width: int  # T
    embed: Callable[[Batch], Tensor]

    def __call__(self, batch: Batch) -> Tensor:
        return self.embed(batch)


@dataclass(frozen=True, slots=True)
class Visited:
    """The rows of a corpus that a run visits, for a teacher that keeps something of each."""

    corpus: Any
    rows: RowIds  # (R,) rising

    @classmethod
    def by(cls, context: BuildContext) -> Self:
        corpus = context.needed("corpus")
        return cls(
            corpus, np.arange(len(corpus)) if context.rows is None else np.unique(context.rows)
        )

    def __len__(self) -> int:
        return len(self.rows)

    def key(self, layout: int, teacher: str) -> str:
        """A checksum of all that decides what the teacher keeps."""
        chosen = xxhash.xxh3_128_hexdigest(self.rows.tobytes())
        return xxhash.xxh3_128_hexdigest(
            json.dumps([layout, teacher, self.corpus.key, chosen]).encode()
        )

    def read(self, size: int, begun: int = 0) -> Iterator[tuple[int, list[str]]]:
        """The texts from place ``begun`` on, ``size`` at a time, each part with the place where it
        begins.
        """
        for start in range(begun, len(self), size):
            yield start, self.corpus.texts(self.rows[start : start + size])

    def places(self, wanted: Tensor) -> RowIds:
        """Where rows of the corpus (N,) are among those that are kept: (N,)."""
        asked = wanted.cpu().numpy()
        places = self.rows.searchsorted(asked).clip(max=len(self) - 1)
        if len(missing := asked[self.rows[places] != asked]):
            problem = f"the teacher has no embedding of row {missing[0]}"
            raise UserError(
                problem,
                "let 'label' hold row numbers, and open the teacher with all rows of the run",
            )
        return places


def encoded_once(encoder: TeacherEncoder, context: BuildContext) -> Taught:
    """A teacher that looks up rows: found in the cache, or encoded; of several processes one
    encodes, the others wait.

    The key is a checksum of the model, its settings, the corpus and the rows. After a kill, whole
    shards count.
    """
    visited = Visited.by(context)
    count, row = len(visited), 4 * encoder.width  # bytes
    key = visited.key(_LAYOUT, model_checksum(encoder.encoder, encoder.bf16))

    def write(folder: Path) -> None:
        draft = folder.with_name(f".{key}.vectors{DRAFT}")
        begun = (
            (draft.stat().st_size if draft.exists() else 0) // row // TEACHER_SHARD * TEACHER_SHARD
        )
        needed = row * (count - begun)
        check_space(
            folder,
            needed,
            f"the array of the teacher {encoder.name}",
            "free some, or use live = true",
        )
        for start, texts in visited.read(TEACHER_SHARD, begun):
            # (≤ S, T)
            write_behind(
                draft, start * row, encoder(texts, start, count).numpy().astype("<f4").tobytes()
            )
        move(draft, folder / VECTORS)

    found = cached(cache_folder("teachers", key), write) / VECTORS
    return looked_up(np.memmap(found, "<f4", "r").reshape(count, -1), visited)


def looked_up(vectors: npt.NDArray[np.float32], visited: Visited) -> Taught:
    """The teacher that has these vectors (R, T), unit rows, of the rows that a run visits."""

    def embed(batch: Batch) -> Tensor:
        return torch.from_numpy(vectors[visited.places(batch.rows)]).to(batch.rows.device)

    return Taught(vectors.shape[1], embed)
