"""What evaluation asks of a model: `encode(list[str])` gives one vector a sentence. Nothing else is known of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from isotrope.errors import UserError
from isotrope.evaluation.sets.pairs import Pairs

LARGEST = 1e15  # the squares of larger values overflow float32

Floats = npt.NDArray[np.floating[Any]]


class Encoder(Protocol):
    """Anything that turns n sentences into n vectors: a numpy array or a torch tensor (n, D), or a list of vectors."""

    def encode(self, sentences: list[str]) -> Any:
        """Sentences (n,) → vectors (n, D)."""


class Embedded:
    """Vectors of sentences, each distinct sentence encoded once, in one call of the encoder.

    Repeated sentences are a third of the STS sets. Equal sentences have exactly equal vectors this way.

    Raises UserError where the encoder's output is not (n, D), n the number of sentences, or holds NaN or infinity.
    """

    def __init__(self, encoder: Encoder, sentences: Iterable[str]) -> None:
        self.sentences = list(dict.fromkeys(sentences))  # distinct, in order of first occurrence
        self._row = {sentence: row for row, sentence in enumerate(self.sentences)}
        self.vectors: Floats = encode(encoder, self.sentences)  # (n, D)

    def __call__(self, sentences: Sequence[str]) -> Floats:
        """Vectors (N, D) of N sentences that were among those given."""
        return np.asarray(self.vectors[[self._row[sentence] for sentence in sentences]])

    def cosines(self, pairs: Pairs) -> npt.NDArray[np.float64]:
        """Cosine (N,) of each pair, in the vectors' own precision as SentEval has it; 0 where a vector is zero."""
        a, b = self(pairs.first), self(pairs.second)
        norms = np.sqrt(dot(a, a)) * np.sqrt(dot(b, b))
        cosines = np.divide(dot(a, b), norms, out=np.zeros_like(norms), where=norms > 0)
        return np.asarray(cosines, dtype=np.float64)


def dot(a: Floats, b: Floats) -> Floats:
    """Row-wise products of a (N, D) and b (N, D) → (N,), summed in one fixed order: the same bits on every machine.

    The order matters. Pairs of equal sentences have cosine 1 up to the last bit, and that bit decides their rank: the
    correlation of STS12 SMTeuroparl, where every seventh pair is such a one, differs by 0.001 from one CPU to another.
    The order here is that of a dot product on a CPU with AVX-512, where SentEval's reference results come from: 64
    lanes of fused multiply-adds, folded to 32, 8, 4, 2, 1.
    """
    lanes = np.zeros((len(a), 64), a.dtype)
    for start in range(0, a.shape[1], 64):
        u, v = (x[:, start : start + 64].astype(np.float64) for x in (a, b))
        # Fused: the product of two float32 is exact in float64, so a step rounds once.
        lanes[:, : u.shape[1]] = lanes[:, : u.shape[1]] + u * v
    four = lanes.reshape(-1, 4, 2, 8).sum(axis=2)  # (N, 4, 8): four registers, their halves added
    eight = four[:, 0] + four[:, 1] + four[:, 2] + four[:, 3]
    half = eight[:, :4] + eight[:, 4:]
    return np.asarray((half[:, 0] + half[:, 1]) + (half[:, 2] + half[:, 3]))


def encode(encoder: Encoder, sentences: list[str]) -> Floats:
    """Vectors (n, D) of n sentences as a numpy array, checked; see `Embedded` for the errors."""
    # A string has an encode() of its own: someone gave a model's name.
    if isinstance(encoder, str) or not callable(getattr(encoder, "encode", None)):
        raise UserError(
            f"{encoder!r:.80} is no encoder", "give an object with encode(list[str]), as from isotrope.load"
        )
    output = encoder.encode(sentences)
    try:
        vectors = _to_numpy(output)
    except (TypeError, ValueError):
        raise UserError(
            f"encode() gave a {type(output).__name__} that is no array of numbers", "return one vector a sentence"
        ) from None
    if vectors.ndim != 2 or vectors.shape[0] != len(sentences) or vectors.shape[1] == 0:
        raise UserError(
            f"encode() gave shape {vectors.shape} for {len(sentences)} sentences",
            f"return one vector a sentence: shape ({len(sentences)}, dimensions)",
        )
    wrong = np.flatnonzero(~(np.abs(vectors) < LARGEST).all(axis=1))  # NaN compares false
    if len(wrong):
        raise UserError(
            f"encode() gave NaN, infinity or values beyond {LARGEST:g} for {len(wrong)} of {len(sentences)} sentences, "
            f"first {sentences[wrong[0]][:80]!r}",
            "check the model's weights and precision",
        )
    return vectors


def _to_numpy(output: Any) -> Floats:
    if isinstance(output, (list, tuple)) and output and isinstance(output[0], torch.Tensor):
        output = torch.stack(list(output))
    if isinstance(output, torch.Tensor):
        output = output.detach().cpu()
        output = output.numpy() if output.dtype == torch.float64 else output.float().numpy()
    vectors = np.asarray(output)
    # Half precision widens exactly; float32 stays as it is, to spare memory until the cosines are taken.
    return vectors if vectors.dtype in (np.float32, np.float64) else vectors.astype(np.float32)
