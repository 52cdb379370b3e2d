"""An encoder with a step behind it that is fitted on sentences: of the target, or of a corpus."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import islice
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, ConfigDict
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize

from isotrope.encoder.embed import search_vectors, vectors_of
from isotrope.encoder.pooling import dense
from isotrope.encoder.prompts import ByRole, Role, has_roles, with_modules
from isotrope.errors import UserError
from isotrope.text.cleaning import fold
from isotrope.text.files import find_sources
from isotrope.text.readers import rows
from isotrope.text.tables import Columns
from isotrope.types import Count, Encoder, Matrix

Transform = Callable[[Matrix], Matrix]  # (N, D) -> (N, K), row by row
Vectors = npt.NDArray[np.float32]  # (N, D), as encoders give them

TARGET = "target"


class PostStep(BaseModel, ABC):
    """What is done to an encoder's vectors, and the sentences that it is fitted on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # the sentences of the evaluation themselves; or a file of text, as training reads it
    fit: str = TARGET
    sentences: Count | None = None  # of the corpus, from its beginning; all by default

    def check(self) -> None:
        if self.fit != TARGET:
            find_sources([self.fit])
        elif self.sentences is not None:
            problem = f"sentences = {self.sentences} of the target"
            remedy = "the target is fitted on whole: name a corpus with fit="
            raise UserError(problem, remedy, code="sentences-of-the-target")

    def behind(self, base: Encoder) -> "FittedEncoder":
        return FittedEncoder(base, self)

    @abstractmethod
    def fitted(self, vectors: Matrix) -> Transform:
        """The transformation fitted on vectors (N, D)."""

    def corpus(self) -> list[str]:
        """The sentences of the corpus, blank lines left out."""
        return list(islice(self._texts(), self.sentences))

    def _texts(self) -> Iterator[str]:
        for source in find_sources([self.fit]):
            for _, fields in rows(source, Columns()):
                yield from filter(None, fold(fields))


class LinearStep(PostStep):
    """A step x -> (x − μ) W, which can also be a layer of a saved model: `with_linear`."""

    @abstractmethod
    def linear(self, vectors: Matrix) -> tuple[Matrix, Matrix]:
        """Mean μ (D,) and W (D, K), fitted on vectors (N, D)."""

    def fitted(self, vectors: Matrix) -> Transform:
        mean, matrix = self.linear(vectors)
        return lambda x: (x - mean) @ matrix


class FittedEncoder(ByRole):
    """An encoder and a step behind it. A step of the target is fitted anew on the sentences of each
    `encode`.

    An evaluation encodes all sentences of its tasks in one call, so that they are the target.
    """

    def __init__(self, base: Encoder, step: PostStep) -> None:
        self.base = base
        self.step = step
        self.similarity_fn_name = getattr(base, "similarity_fn_name", "cosine")
        self._transform: Transform | None = None

    def fit(self, sentences: Sequence[str]) -> Self:
        """Fit on some sentences, and on nothing else from now on."""
        if isinstance(self.base, FittedEncoder) and self.base.step.fit == TARGET:
            self.base.fit(sentences)
        distinct = list(dict.fromkeys(sentences))
        vectors = vectors_of(self.base, distinct)
        self._transform = self.step.fitted(_precise(vectors))
        return self

    def encode(self, sentences: list[str], role: Role | None = None) -> Vectors:
        """Sentences (N,) -> (N, K)."""
        self._read_corpus()
        distinct = list(dict.fromkeys(sentences))
        vectors = _precise(vectors_of(self.base, distinct, role=role))
        transform = self._transform or self.step.fitted(vectors)
        transformed = transform(vectors).astype(np.float32)

        row_of = {sentence: row for row, sentence in enumerate(distinct)}
        rows = [row_of[sentence] for sentence in sentences]
        return transformed[rows]

    @property
    def has_roles(self) -> bool:
        return has_roles(self.base)

    def encode_search(
        self, queries: Sequence[str], documents: Sequence[str]
    ) -> tuple[Vectors, Vectors]:
        """Queries (Q,) and documents (M,), which are the target together -> (Q, K), (M, K)."""
        self._read_corpus()
        vectors = search_vectors(self.base, queries, documents)
        query_vectors, document_vectors = map(_precise, vectors)
        transform = self._transform
        if transform is None:
            target = np.concatenate([query_vectors, document_vectors])
            transform = self.step.fitted(np.unique(target, axis=0))
        return (
            transform(query_vectors).astype(np.float32),
            transform(document_vectors).astype(np.float32),
        )

    def _read_corpus(self) -> None:
        if self._transform is None and self.step.fit != TARGET:
            self.fit(self.step.corpus())


def _precise(vectors: npt.ArrayLike) -> Matrix:
    return np.asarray(vectors, dtype=np.float64)


def uncut(encoder: SentenceTransformer) -> SentenceTransformer:
    """The model without ``truncate_dim``; it shares the modules of the given one."""
    model = copy(encoder)
    model.truncate_dim = None
    return model


def cut_dimensions(encoder: SentenceTransformer, width: int) -> int:
    """How many dimensions the model cuts from its vectors, so that ``width`` are left."""
    all_dimensions = uncut(encoder).get_embedding_dimension() or 0
    return int(all_dimensions) - width


def with_linear(
    encoder: SentenceTransformer,
    mean: Matrix,  # μ (D,)
    matrix: Matrix,  # W (D, K)
) -> SentenceTransformer:
    """The model with x -> (x − μ) W as its last layer, for μ and W that are fitted on its vectors.

    Where the model ends with unit length, the new one does too. The given model stays as it is, but
    the two share their modules: train only one of them. Vectors that the model cuts to D dimensions
    (``truncate_dim``) are cut inside the layer, before they are rotated. What is cut has no unit
    length, and gets none.
    """
    # Dimensions that the model cuts get the weight 0.
    beyond = cut_dimensions(encoder, len(mean))
    mean = np.pad(mean, (0, beyond))
    matrix = np.pad(matrix, ((0, beyond), (0, 0)))

    weight = torch.from_numpy(matrix.T.copy())
    bias = torch.from_numpy(-mean @ matrix)
    layer = dense(weight, bias)  # x W − μ W
    modules = [*encoder, layer.to(encoder.device)]

    has_unit_length = isinstance(encoder[-1], Normalize)
    if has_unit_length and encoder.truncate_dim is None:
        modules.append(Normalize())
    return with_modules(uncut(encoder), modules)  # else it would cut behind the layer
