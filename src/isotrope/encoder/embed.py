"""The one loop that turns texts into vectors, checks what an encoder gives back, and gives freed
memory back.
"""

import ctypes
import gc
import sys
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding, Transformer

from isotrope.console.progress import tell
from isotrope.encoder.fast.products import fast_products
from isotrope.encoder.prompts import Role, has_roles, role_prompt
from isotrope.errors import UserError
from isotrope.types import Encoder

LARGEST = 1e15  # the squares of larger values overflow float32
# of a forward pass, for each thread of the processor: twice as many save 3 % of the time at most
TOKENS = 1024
GPU_TOKENS = 16384  # of a pass on a GPU: as many as 32 texts of 512 tokens have
GPU_TEXTS = 1024  # of a pass on a GPU, at most
BATCH_SIZE = 32  # texts of a pass of a sentence-transformers model
BYTES_A_TOKEN = 4  # about
GROWTH = 100e6  # bytes: giving back more often costs time, less often memory

Vectors = npt.NDArray[np.floating[Any]]  # (N, D) float32; float64 where the encoder gives float64


class FreedMemory:
    """Gives freed memory back to the system.

    glibc holds the pieces that batches of many lengths have left.
    """

    _bytes_before: int | None = None  # of this process, at the first check since the last time

    def give_back(self) -> None:
        """Call this where one kind of work ends, such as training."""
        gc.collect()
        self._bytes_before = None
        if sys.platform == "linux":
            trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
            if trim:
                trim(0)

    def check(self) -> None:
        """Call this between batches. It gives back if this process has grown by 100 MB."""
        held = psutil.Process().memory_info().rss
        if self._bytes_before is None:
            self._bytes_before = held
        if held > self._bytes_before + GROWTH:
            self.give_back()


freed_memory = FreedMemory()  # one for the process: trainings and encodings share its memory


def vectors_of(
    encoder: Encoder,
    texts: Sequence[str],
    *,
    batch_size: int | None = None,
    first_row: int = 0,
    progress: Callable[[int], None] | None = None,
    role: Role | None = None,
) -> Vectors:
    """Texts (N,) -> vectors (N, D) as a numpy array. Each distinct text is encoded once.

    So equal texts have exactly equal vectors, and repeated ones (a third of the STS sets) cost
    nothing.

    Args:
        encoder: anything with ``encode(list[str])`` that gives one vector a text: an array, a
            tensor, or a list.
        texts: may repeat.
        batch_size: texts a forward pass; the longest come first, so that little is padding. On the
            processor, a pass has fewer where they are long: about `TOKENS` tokens for each thread.
            None: 32 for a sentence-transformers model, on a GPU more where they are short; others
            get all distinct texts in one call, in the order in which they first occur, as a step
            needs that is fitted on them.
        first_row: the number of the first text, for messages.
        progress: called with the number of texts done, after each forward pass; by default a bar
            that watches is told (`isotrope.console.progress.watch`).
        role: what the texts are in a search. It chooses the prompt of a model that has one for each
            role. None, and every text for other models: the model's default prompt.

    Raises:
        UserError: there is no encoder, its output is not (n, D), or it holds NaN or infinity (names
            the text).
    """
    model = encoder if isinstance(encoder, SentenceTransformer) else None
    was_training = model is not None and model.training
    widen = model is not None and batch_size is None and model.device.type != "cpu"
    if model is not None and batch_size is None:
        batch_size = BATCH_SIZE
    report = progress or (lambda done: tell("encoded", done, len(texts)))

    distinct = list(dict.fromkeys(texts))
    if batch_size is not None:
        distinct.sort(key=lambda text: (-len(text), text))
    count = max(1, len(distinct))  # no text is one empty batch, which tells the width

    batches: list[Vectors] = []
    start = 0
    while start < count:
        report(len(texts) * start // count)
        size = batch_size or count
        if model is not None and distinct:
            size = _texts_a_pass(model, distinct[start], size, widen)
        batch = distinct[start : start + size]
        vectors = _encode_batch(encoder, batch, role)
        _refuse_not_finite(vectors, batch, texts, first_row)
        batches.append(vectors)
        start += size
        if model is not None:
            freed_memory.check()
    if model is not None and was_training:  # its encode ends training
        model.train()
    report(len(texts))

    row_of_text = {text: row for row, text in enumerate(distinct)}
    rows = [row_of_text[text] for text in texts]
    return np.asarray(np.concatenate(batches)[rows])


def _refuse_not_finite(
    vectors: Vectors, batch: Sequence[str], texts: Sequence[str], first_row: int
) -> None:
    """Refuse vectors with NaN, infinity or values whose squares overflow, and name the first
    text.
    """
    is_finite = (np.abs(vectors) < LARGEST).all(axis=1)  # NaN compares false
    if is_finite.all():
        return
    wrong = np.flatnonzero(~is_finite)
    text = batch[wrong[0]]
    row = first_row + texts.index(text)
    raise UserError(
        f"encode() gave NaN, infinity or values beyond {LARGEST:g} for {len(wrong)} of "
        f"{len(batch)} sentences, first for row {row} (counted from 0), {text[:80]!r}",
        "check the model's weights and precision",
        "vectors-not-finite",
    )


def _texts_a_pass(model: SentenceTransformer, longest: str, batch_size: int, widen: bool) -> int:
    """How many texts a forward pass takes if none is longer than ``longest``.

    On a processor it takes ``batch_size`` at most, on a GPU more where ``widen`` is set.
    """
    if isinstance(model[0], StaticEmbedding):
        return 16 * batch_size  # it takes no memory, and the call itself takes the time
    on_processor = model.device.type == "cpu"
    if not isinstance(model[0], Transformer) or not (on_processor or widen):
        return batch_size

    byte_count = len(longest.encode(errors="replace"))
    tokens = min(byte_count / BYTES_A_TOKEN, model.max_seq_length or inf)
    tokens = max(1, tokens)
    if widen:
        fitting = int(GPU_TOKENS / tokens)
        return max(batch_size, min(GPU_TEXTS, fitting))
    fitting = int(TOKENS * torch.get_num_threads() / tokens)
    return max(1, min(batch_size, fitting))


def search_vectors(
    encoder: Encoder, queries: Sequence[str], documents: Sequence[str]
) -> tuple[Vectors, Vectors]:
    """Queries (Q,) and documents (M,) -> their vectors (Q, D) and (M, D), each with the prompt of
    its role.

    An encoder without roles gets all texts in one call, so that a step is fitted on all of them.
    One with roles that wants them together has a method ``encode_search`` with the arguments and
    the result of this function.
    """
    if not has_roles(encoder):
        vectors = vectors_of(encoder, [*queries, *documents])
        count = len(queries)
        return vectors[:count], vectors[count:]
    if hasattr(encoder, "encode_search"):
        return encoder.encode_search(queries, documents)  # type: ignore[no-any-return]
    query_vectors = vectors_of(encoder, queries, role="query")
    document_vectors = vectors_of(encoder, documents, role="document")
    return query_vectors, document_vectors


def _encode_batch(encoder: Encoder, texts: list[str], role: Role | None) -> Vectors:
    """One call of the encoder: texts (n,) -> (n, D), D > 0."""
    # A string has an encode() of its own: someone gave a model's name.
    if isinstance(encoder, str) or not callable(getattr(encoder, "encode", None)):
        raise UserError(
            f"{encoder!r:.80} is not an encoder",
            "give an object with encode(list[str]), as from isotrope.load",
            "not-an-encoder",
        )
    method = "encode"
    if role and has_roles(encoder):
        method = f"encode_{role}"
    else:
        role = None
    options: dict[str, Any] = {}
    if isinstance(encoder, SentenceTransformer):
        options = {"batch_size": max(1, len(texts)), "show_progress_bar": False}
        if role:
            options["prompt"] = role_prompt(encoder, role)

    with fast_products():
        vectors = _as_array(getattr(encoder, method)(texts, **options))
    is_matrix = vectors.ndim == 2 and vectors.shape[1] > 0
    if not is_matrix or len(vectors) != len(texts):
        raise UserError(
            f"encode() gave shape {vectors.shape} for {len(texts)} sentences",
            f"return one vector a sentence: shape ({len(texts)}, dimensions)",
            "vectors-of-wrong-shape",
        )
    return vectors


def _as_array(output: Any) -> Vectors:
    """An array, a tensor, or a list of vectors or tensors, as float32 or float64."""
    is_list = isinstance(output, list | tuple) and len(output) > 0
    if is_list and isinstance(output[0], torch.Tensor):
        output = torch.stack(list(output))
    if isinstance(output, torch.Tensor):
        numpy_has_it = torch.promote_types(output.dtype, torch.float32)  # it has no bfloat16
        output = output.detach().cpu().to(numpy_has_it).numpy()
    vectors: Vectors = np.asarray(output)
    if vectors.dtype not in (np.float32, np.float64):
        vectors = vectors.astype(np.float32)
    return vectors
