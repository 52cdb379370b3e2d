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
from isotrope.encoder.prompts import Role, has_roles, role_prompt
from isotrope.errors import UserError
from isotrope.types import Encoder

LARGEST = 1e15  # the squares of larger values overflow float32
# of a forward pass, for each thread of the processor: twice as many save 3 % of the time at most
TOKENS = 1024
GPU_TOKENS, GPU_TEXTS = 16384, 1024  # of a pass on a GPU: as many as 32 texts of 512 tokens have
_BYTES = 4  # of a token, about

Vectors = npt.NDArray[np.floating[Any]]  # (N, D) float32; float64 where the encoder gives float64


class FreedMemory:
    """Gives freed memory back to the system: glibc keeps what batches of many lengths have left in
    pieces.
    """

    _held: int | None = None  # by this process, at the first check since the last time

    def give_back(self) -> None:
        """Call this where one kind of work ends, such as training."""
        gc.collect()
        self._held = None
        # musl has none
        if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
            trim(0)

    def check(self) -> None:
        """Call this between batches. It gives back if this process has grown by 100 MB."""
        held = psutil.Process().memory_info().rss
        self._held = self._held or held
        if held > self._held + 100e6:  # less costs time, more costs memory
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
                get all distinct texts in one call, in the order in
            which they first occur, as a step needs that is fitted on them.
        first_row: the number of the first text, for messages.
        progress: called with the number of texts done, after each forward pass; by default a bar
            that watches is told (`isotrope.console.progress.watch`).
        role: what the texts are in a search. It chooses the prompt of a model that has one for each
            role. None, and every text for other models: the model's default prompt.

    Raises:
        UserError: there is no encoder, its output is not (n, D), or it holds NaN or infinity (names
            the text).
    """
    distinct = list(dict.fromkeys(texts))
    model = encoder if isinstance(encoder, SentenceTransformer) else None
    training = model is not None and model.training
    widen = model is not None and batch_size is None and model.device.type != "cpu"
    if model is not None:
        batch_size = batch_size or 32
    if batch_size is not None:
        distinct.sort(key=lambda text: (-len(text), text))
    report = progress or (lambda count: tell("encoded", count, len(texts)))
    parts: list[Vectors] = []
    start = 0
    while start < len(distinct) or not parts:
        report(len(texts) * start // max(1, len(distinct)))
        step = batch_size or max(1, len(distinct))
        if model is not None and distinct:
            step = _fitting(model, distinct[start], step, widen)
        chunk = distinct[start : start + step]
        parts.append(_encoded(encoder, chunk, role))
        start += step
        wrong = np.flatnonzero(~(np.abs(parts[-1]) < LARGEST).all(axis=1))  # NaN compares false
        if len(wrong):
            text = chunk[wrong[0]]
            where = f"row {first_row + texts.index(text)} (counted from 0), {text[:80]!r}"
            problem = f"encode() gave NaN, infinity or values beyond {LARGEST:g} for {len(wrong)} of {len(chunk)}"
            raise UserError(
                f"{problem} sentences, first for {where}", "check the model's weights and precision"
            )
        if model is not None:
            freed_memory.check()
    if model is not None and training:  # its encode ends training
        model.train()
    report(len(texts))
    place = {text: row for row, text in enumerate(distinct)}
    return np.asarray(np.concatenate(parts)[[place[text] for text in texts]])


def _fitting(model: SentenceTransformer, longest: str, batch_size: int, widen: bool) -> int:
    """How many texts a forward pass may have, where none is longer than this one; on a GPU more,
    with ``widen``.
    """
    if isinstance(model[0], StaticEmbedding):
        return 16 * batch_size  # it takes no memory, and the call itself takes the time
    if (model.device.type != "cpu" and not widen) or not isinstance(model[0], Transformer):
        return batch_size
    tokens = min(len(longest.encode(errors="replace")) / _BYTES, model.max_seq_length or inf)
    if widen:
        return max(batch_size, min(GPU_TEXTS, int(GPU_TOKENS / max(tokens, 1))))
    return max(1, min(batch_size, int(TOKENS * torch.get_num_threads() / max(tokens, 1))))


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
        both = vectors_of(encoder, [*queries, *documents])
        return both[: len(queries)], both[len(queries) :]
    if hasattr(encoder, "encode_search"):
        return encoder.encode_search(queries, documents)  # type: ignore[no-any-return]
    return vectors_of(encoder, queries, role="query"), vectors_of(
        encoder, documents, role="document"
    )


def _encoded(encoder: Encoder, texts: list[str], role: Role | None) -> Vectors:
    """One call of the encoder: texts (n,) -> (n, D), D > 0."""
    # A string has an encode() of its own: someone gave a model's name.
    if isinstance(encoder, str) or not callable(getattr(encoder, "encode", None)):
        remedy = "give an object with encode(list[str]), as from isotrope.load"
        raise UserError(f"{encoder!r:.80} is not an encoder", remedy)
    own = role if role and has_roles(encoder) else None
    call: Callable[..., Any] = getattr(encoder, f"encode_{own}" if own else "encode")
    options: dict[str, Any] = {}
    if isinstance(encoder, SentenceTransformer):
        options = {"batch_size": max(1, len(texts)), "show_progress_bar": False}
        options |= {"prompt": role_prompt(encoder, own)} if own else {}
    output = call(texts, **options)
    if isinstance(output, list | tuple) and output and isinstance(output[0], torch.Tensor):
        output = torch.stack(list(output))
    if isinstance(output, torch.Tensor):  # numpy has no bfloat16
        output = output.detach().cpu().to(torch.promote_types(output.dtype, torch.float32)).numpy()
    vectors: Vectors = np.asarray(output)
    if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1]:
        remedy = f"return one vector a sentence: shape ({len(texts)}, dimensions)"
        raise UserError(f"encode() gave shape {vectors.shape} for {len(texts)} sentences", remedy)
    return vectors if vectors.dtype in (np.float32, np.float64) else vectors.astype(np.float32)
