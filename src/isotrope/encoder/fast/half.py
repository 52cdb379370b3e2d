"""Encoding in 16 bits on a CPU that has instructions for it: the matrix products in bfloat16, all
else in float32.

Embeddings, the sums of the residual stream, LayerNorm, pooling and normalisation stay in 32 bits.
Weights are rounded and laid out for the processor once, beside the float32 ones, so the state of
the model is what it was.
"""

import platform
import statistics
import time
from collections.abc import Sequence
from functools import cache, partial, update_wrapper
from typing import Any, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.modernbert.modeling_modernbert import ModernBertAttention, rotate_half

from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.embed import Vectors, vectors_of
from isotrope.encoder.fast.attention import packed_attention
from isotrope.encoder.fast.packed import WIDTH, forward, layers, supports
from isotrope.store.cache import remembered

Dtype = Literal["float32", "bf16"]
AUTO = "auto"
DTYPES = (AUTO, *get_args(Dtype))
ROWS = 1024  # about as many tokens as a pass has: the layout of the weights suits this many
CLOSE = 0.999  # the smallest cosine of a bf16 vector with its float32 one
FASTER = 1.2  # times; about twice is usual, so that one machine always decides alike
CHARACTERS, ROUNDS = 8000, 3  # of a measurement: a second or two for MiniLM on one core
SAMPLE = (
    "The train is late.",
    "How do I give back a book that I have bought twice by mistake?",
    "A bridge of steel was built over the river in 1890, after a flood had taken the older one, which was of wood.",
    "Cells were kept at 37 °C for two days; growth was then compared with that of cells without the protein. "
    * 4,
)  # where no text is given


@cache
def has_bf16() -> bool:
    """Whether this processor multiplies bfloat16 numbers itself: AVX-512 BF16 or AMX."""
    return torch.backends.mkldnn.is_available() and torch.cpu._is_avx512_bf16_supported()  # type: ignore[no-untyped-call]


class Linear16(nn.Linear):
    """(…, A) float32 or bfloat16 -> (…, B) bfloat16, by rounded weights; float32 where the weights
    can be trained.
    """

    # the rounded weight, laid out, and the bias (B,)
    _ready: tuple[Tensor, Tensor | None] | None = None

    def forward(self, input: Tensor) -> Tensor:
        if self.weight.requires_grad:
            return F.linear(input.float(), self.weight, self.bias)
        if self._ready is None:
            bias = None if self.bias is None else self.bias.bfloat16()
            self._ready = (
                torch.ops.mkldnn._reorder_linear_weight(self.weight.bfloat16(), ROWS),
                bias,
            )
        return torch.ops.mkldnn._linear_pointwise(input.bfloat16(), *self._ready, "none", [], "")  # type: ignore[no-any-return]

    def __getstate__(self) -> dict[str, Any]:
        """What is copied or sent to another process, which lays the weights out anew."""
        return {name: value for name, value in self.__dict__.items() if name != "_ready"}


class Attention16(ModernBertAttention):
    """(1, T, D) -> (1, T, D). Queries and keys are turned together, in 16 bits; transformers widens
    each twice.
    """

    def forward(
        self, hidden_states: Tensor, position_embeddings: Any, attention_mask: Any, **kwargs: Any
    ) -> Any:
        heads = self.Wqkv(hidden_states).unflatten(-1, (3, -1, self.head_dim))  # (1, T, 3, H, d)
        cos, sin = (part.to(heads.dtype)[:, :, None, None] for part in position_embeddings)
        pairs, value = heads[:, :, :2], heads[:, :, 2]
        turned = torch.addcmul(pairs * cos, rotate_half(pairs), sin)
        # (1, H, T, d)
        query, key, value = (part.transpose(1, 2) for part in (*turned.unbind(2), value))
        kwargs["sliding_window"] = self.sliding_window
        return self.Wo(
            packed_attention(self, query, key, value, attention_mask, **kwargs)[0].flatten(2)
        ), None


HALVES: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: Linear16,
    ModernBertAttention: Attention16,
}


def multiply_in(encoder: PreTrainedModel, dtype: Dtype) -> None:
    """Let the layers of a packed encoder multiply in ``dtype``, in place; for bf16, its weights
    must be frozen.

    In bf16, lengths are multiples of 16 and numbers of tokens of `WIDTH`, since oneDNN prepares
    each new shape for a millisecond.
    """
    half = dtype == "bf16"
    classes = HALVES if half else {narrow: wide for wide, narrow in HALVES.items()}
    for module in layers(encoder).modules():
        if type(module) in classes:
            module.__dict__.pop("_ready", None)
            module.__class__ = classes[type(module)]
    shapes = {"width": 16, "multiple": WIDTH} if half else {}
    encoder.forward = update_wrapper(partial(forward, encoder, **shapes), encoder.forward)


def dtype_of(encoder: nn.Module) -> Dtype:
    """What the layers of an encoder, or of a model around it, multiply in."""
    return (
        "bf16" if any(isinstance(module, Linear16) for module in encoder.modules()) else "float32"
    )


def why_not_bf16(config: PreTrainedConfig | None, device: str, packed: bool = True) -> str:
    """Why an encoder of this configuration cannot encode in bf16 here, for a message; "" if it can."""
    reasons = {
        "this processor has no instructions for it": not has_bf16(),
        "it is for the CPU, and the model is elsewhere": not device.startswith("cpu"),
        "it needs packed = True": not packed,
        "isotrope does not pack this architecture": not supports(config),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def choose_dtype(model: SentenceTransformer, texts: Sequence[str] = SAMPLE) -> None:
    """Let a frozen model encode in bf16 if that is `FASTER` and `CLOSE` on the first of these
    texts, in place.

    It is measured once for the same machine, model and texts, and then remembered, so vectors stay
    the same.
    """
    if not isinstance(model[0], Transformer) or why_not_bf16(
        model[0].auto_model.config, model.device.type
    ):
        return
    encoder = model[0].auto_model
    count = int(np.searchsorted(np.cumsum([len(text) for text in texts]), CHARACTERS)) + 1
    sample = list(texts[:count])
    machine = [platform.node(), platform.machine(), torch.__version__, torch.get_num_threads()]

    def measured() -> Dtype:
        seconds: dict[Dtype, list[float]] = {"float32": [], "bf16": []}
        vectors: dict[Dtype, Vectors] = {}
        for number in range(ROUNDS + 1):
            for dtype, took in seconds.items():
                multiply_in(encoder, dtype)
                vectors_of(model, sample[:1])  # weights are laid out
                began = time.perf_counter()
                vectors[dtype] = vectors_of(model, sample)
                took += [time.perf_counter() - began] if number else []
        half, whole = (
            rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in vectors.values()
        )
        ratio = statistics.median(np.divide(seconds["float32"], seconds["bf16"]))
        return (
            "bf16" if ratio >= FASTER and (half * whole).sum(axis=1).min() >= CLOSE else "float32"
        )

    multiply_in(encoder, "float32")
    multiply_in(encoder, remembered("dtype", [model_checksum(model), machine, sample], measured))
