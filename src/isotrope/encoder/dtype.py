"""In which numbers a model encodes: bf16 is for processors that have it, where it is faster and as good."""

import platform
import statistics
import time
from collections.abc import Sequence
from typing import get_args

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from transformers import PreTrainedConfig

from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.embed import Vectors, vectors_of
from isotrope.encoder.fast.half import Dtype, has_bf16, multiply_in
from isotrope.encoder.fast.packed import supports
from isotrope.store.cache import remembered

AUTO = "auto"
DTYPES = (AUTO, *get_args(Dtype))
CLOSE = 0.999  # the smallest cosine of a bf16 vector with its float32 one
FASTER = 1.2  # times; about twice is usual, so that one machine always decides alike
CHARACTERS, ROUNDS = 8000, 3  # of a measurement: a second or two for MiniLM on one core
SAMPLE = (
    "The train is late.",
    "How do I give back a book that I have bought twice by mistake?",
    "A bridge of steel was built over the river in 1890, after a flood had taken the older one, which was of wood.",
    "Cells were kept at 37 °C for two days; growth was then compared with that of cells without the protein. " * 4,
)  # where no text is given


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
    """Let a frozen model encode in bf16 if that is `FASTER` and `CLOSE` on the first of these texts, in place.

    It is measured once for the same machine, model and texts, and then remembered, so vectors stay the same.
    """
    if not isinstance(model[0], Transformer) or why_not_bf16(model[0].auto_model.config, model.device.type):
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
        half, whole = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in vectors.values())
        ratio = statistics.median(np.divide(seconds["float32"], seconds["bf16"]))
        return "bf16" if ratio >= FASTER and (half * whole).sum(axis=1).min() >= CLOSE else "float32"

    multiply_in(encoder, "float32")
    multiply_in(encoder, remembered("dtype", [model_checksum(model), machine, sample], measured))
