"""In which numbers an encoder multiplies on a CPU: 32, 16 or 8 bits, and which of them suits."""

import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial, update_wrapper
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.modernbert.modeling_modernbert import ModernBertAttention

from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.embed import Vectors, vectors_of
from isotrope.encoder.fast.half import HALVES, Attention16, Linear16, has_bf16
from isotrope.encoder.fast.int8 import Linear8, has_int8, measure_grids
from isotrope.encoder.fast.packed import WIDTH, forward, layers, supports
from isotrope.store.cache import remembered

Dtype = Literal["float32", "bf16", "int8"]
AUTO = "auto"
DTYPES = (AUTO, *get_args(Dtype))
NARROW: tuple[Dtype, ...] = ("bf16", "int8")  # bf16 first: it is closer, and about as fast
CLOSE = 0.999  # the smallest cosine of a bf16 vector with its float32 one
SAME_HITS = 0.98  # of the first ten hits in 8 bits: so many must be those in float32
HITS = 10
FEWEST = 40  # texts with which hits can be compared
FASTER = 1.2  # times; about twice is usual, so that one machine always decides alike
# texts and characters of a measurement: a second or two for MiniLM on one core
TEXTS, CHARACTERS, ROUNDS = 100, 8000, 3
SAMPLE = (
    "The train is late.",
    "How do I give back a book that I have bought twice by mistake?",
    "A bridge of steel was built over the river in 1890, after a flood had taken the older one,"
    " which was of wood.",
    4
    * (
        "Cells were kept at 37 °C for two days; growth was then compared with that of cells"
        " without the protein. "
    ),
)  # where no text is given


# What a layer was before `multiply_in` narrowed it.
WIDE: dict[type[nn.Module], type[nn.Module]] = {
    Linear16: nn.Linear,
    Linear8: nn.Linear,
    Attention16: ModernBertAttention,
}


def multiply_in(encoder: PreTrainedModel, dtype: Dtype) -> None:
    """Let the layers of a packed encoder multiply in ``dtype``, in place.

    For bf16 and int8, its weights must be frozen, and for int8 its grids must have been measured
    (`quantise`). In bf16, lengths are multiples of 16 and numbers of tokens of `WIDTH`, since
    oneDNN prepares each new shape for a millisecond.
    """
    for module in layers(encoder).modules():
        module.__dict__.pop("laid_out", None)
        module.__class__ = WIDE.get(type(module), type(module))
        if dtype == "bf16":
            module.__class__ = HALVES.get(type(module), type(module))
        elif dtype == "int8" and "grid" in module.__dict__:
            module.__class__ = Linear8

    shapes = {"width": 16, "multiple": WIDTH} if dtype == "bf16" else {}
    encoder.forward = update_wrapper(partial(forward, encoder, **shapes), encoder.forward)


def quantise(model: SentenceTransformer, texts: Sequence[str] = SAMPLE) -> None:
    """Let a frozen, packed model encode in 8 bits whose steps are measured on the texts, in
    place.
    """
    encoder = model[0].auto_model
    multiply_in(encoder, "float32")
    measure_grids(model, texts)
    multiply_in(encoder, "int8")


def dtype_of(encoder: nn.Module) -> Dtype:
    """What the layers of an encoder, or of a model around it, multiply in."""
    kinds = {type(module) for module in encoder.modules()}
    if Linear16 in kinds:
        return "bf16"
    return "int8" if Linear8 in kinds else "float32"


def why_not(dtype: Dtype, config: PreTrainedConfig | None, device: str, packed: bool = True) -> str:
    """Why an encoder of this configuration cannot encode in bf16 or int8 here; "" if it can."""
    is_able = has_bf16() if dtype == "bf16" else has_int8()
    if not is_able:
        return "this processor has no instructions for it"
    if not device.startswith("cpu"):
        return "it is for the CPU, and the model is elsewhere"
    if not packed:
        return "it needs packed = True"
    if not supports(config):
        return "isotrope does not pack this architecture"
    return ""


@dataclass(frozen=True)
class DtypeComparison:
    """A narrow dtype beside float32, on a sample of texts."""

    dtype: Dtype
    speed: float  # times float32's
    cosine: float  # the smallest of a vector with its float32 one
    same_hits: float | None  # the part of the first ten; None: too few texts

    @property
    def is_good(self) -> bool:
        """Whether it is faster, and close enough."""
        if self.speed < FASTER:
            return False
        if self.dtype == "bf16":
            return self.cosine >= CLOSE
        return self.same_hits is not None and self.same_hits >= SAME_HITS

    def __str__(self) -> str:
        verdict = "taken" if self.is_good else "not taken"
        hits = ""
        if self.same_hits is not None:
            hits = f", {self.same_hits:.0%} of the first hits the same"
        return (
            f"{self.dtype} is {verdict}: {self.speed:.1f} times as fast as float32, "
            f"smallest cosine {self.cosine:.4f}{hits}"
        )


def choose_dtype(model: SentenceTransformer, texts: Sequence[str] = SAMPLE) -> str:
    """Let a frozen model encode in the first of `NARROW` that is `FASTER` and close on the first of
    these texts, in place; give a line that says which, and why.

    It is measured once for the same machine, model and texts, and then remembered, so vectors stay
    the same.
    """
    if not isinstance(model[0], Transformer):
        return ""
    encoder = model[0].auto_model
    device = model.device.type
    dtypes = [dtype for dtype in NARROW if not why_not(dtype, encoder.config, device)]
    if len(texts) < FEWEST and "int8" in dtypes:
        dtypes.remove("int8")
    if not dtypes:
        return ""

    machine = [platform.node(), platform.machine(), torch.__version__, torch.get_num_threads()]
    key = [model_checksum(model), machine, dtypes, _shortened(texts)]
    record = remembered("dtype", key, lambda: asdict(_measured_choice(model, dtypes, texts)))
    choice = Choice(**record)
    if choice.dtype != "int8":
        multiply_in(encoder, choice.dtype)
    elif dtype_of(encoder) != "int8":  # it was remembered
        quantise(model, texts)
    return choice.reason


@dataclass(frozen=True)
class Choice:
    """A dtype, and why it was taken."""

    dtype: Dtype
    reason: str


def _measured_choice(
    model: SentenceTransformer, dtypes: Sequence[Dtype], texts: Sequence[str]
) -> Choice:
    """The first good one, or float32."""
    reasons = []
    for dtype in dtypes:
        if dtype == "int8":
            quantise(model, texts)
        comparison = _compare(model, dtype, _shortened(texts))
        reasons.append(str(comparison))
        if comparison.is_good:
            return Choice(dtype, "; ".join(reasons))
    return Choice("float32", "; ".join(reasons))


def _shortened(texts: Sequence[str]) -> list[str]:
    """The first `CHARACTERS` of the texts, and not more than `TEXTS` of them."""
    lengths = list(map(len, texts[:TEXTS]))
    ends = np.cumsum(lengths)
    count = int(np.searchsorted(ends, CHARACTERS)) + 1
    return list(texts[:count])


def _compare(model: SentenceTransformer, dtype: Dtype, sample: list[str]) -> DtypeComparison:
    """Encode the sample in turns; at the end the model encodes in ``dtype``."""
    seconds: dict[Dtype, list[float]] = {"float32": [], dtype: []}
    vectors: dict[Dtype, Vectors] = {}
    for _ in range(ROUNDS + 1):
        for turn in seconds:
            multiply_in(model[0].auto_model, turn)
            vectors_of(model, sample[:1])  # weights are laid out
            began = time.perf_counter()
            rows = vectors_of(model, sample)
            seconds[turn].append(time.perf_counter() - began)
            vectors[turn] = rows / np.linalg.norm(rows, axis=1, keepdims=True)

    # The first round warms up.
    speeds = np.divide(seconds["float32"], seconds[dtype])[1:]
    exact = vectors["float32"]
    rounded = vectors[dtype]
    cosines = (exact * rounded).sum(axis=1)
    return DtypeComparison(
        dtype,
        speed=float(np.median(speeds)),
        cosine=float(cosines.min()),
        same_hits=same_hits(exact, rounded) if len(sample) >= FEWEST else None,
    )


def same_hits(exact: Vectors, rounded: Vectors) -> float:
    """The part of each vector's first ten neighbours that rounding leaves; unit rows (N, D)
    each.
    """
    shared = []
    for before, after in zip(_neighbours(exact), _neighbours(rounded), strict=True):
        common = np.intersect1d(before, after)
        shared.append(len(common) / HITS)
    return float(np.mean(shared))


def _neighbours(vectors: Vectors) -> npt.NDArray[np.intp]:
    """The rows of the nearest `HITS` others of each of N unit vectors (N, HITS)."""
    cosines = vectors @ vectors.T  # (N, N)
    np.fill_diagonal(cosines, -np.inf)
    return np.argsort(-cosines, axis=1, kind="stable")[:, :HITS]
