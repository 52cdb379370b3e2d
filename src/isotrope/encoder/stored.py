"""A model that computes with 32 bits, and whose embeddings stay in the 16 bits of their file.

Word embeddings are most of a small model's weights. Their rows are widened when a text reads them. Widening is exact,
so the vectors are those of the whole model in 32 bits.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers import PreTrainedConfig

from isotrope.encoder.fast.packed import supports

_HALVES = {"F16": torch.float16, "BF16": torch.bfloat16}


def stored_half(where: str, config: PreTrainedConfig | None) -> torch.dtype | None:
    """The 16-bit type of all tensors in a local model's only file, where its configuration asks for 32 bits; else None.

    For the architectures of `isotrope.encoder.fast.packed` alone: others look at the types of their weights. A broken
    file, or settings that name a type, are left to sentence-transformers.
    """
    files, settings = list(Path(where).rglob("*.safetensors")), Path(where) / "sentence_bert_config.json"
    named = settings.is_file() and "dtype" in settings.read_text(encoding="utf-8")
    if config is None or config.dtype != torch.float32 or not supports(config) or len(files) != 1 or named:
        return None
    with suppress(SafetensorError, OSError), safe_open(files[0], "pt") as file:
        kinds = {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118  no dictionary
        return _HALVES.get(kinds.pop()) if len(kinds) == 1 else None
    return None


def compute_with_32_bits(encoder: SentenceTransformer) -> None:
    """Let a model of 16 bits compute with 32, in place. It is not to be trained: no weight has a gradient."""
    for module in encoder.modules():
        if type(module) is nn.Embedding:
            module.register_forward_hook(lambda module, inputs, output: output.float())
        else:
            for tensor in [*module.parameters(recurse=False), *module.buffers(recurse=False)]:
                if tensor.is_floating_point():
                    tensor.data = tensor.data.float()
    encoder.requires_grad_(False)
    encoder[0].auto_model.config.dtype = torch.float32
    encoder.widened = True


def as_computed(encoder: SentenceTransformer, weights: Tensor) -> Tensor:
    """Weights of a model with the bits that it computes with."""
    return weights.float() if getattr(encoder, "widened", False) else weights
