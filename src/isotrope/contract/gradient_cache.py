"""Gradient caching: a batch in the memory of a part of it, with the full batch's loss and gradients.

Gao et al., RepL4NLP 2021 (GradCache). https://arxiv.org/abs/2101.06983

The parts go through the encoder one after another. Only their embeddings are kept. The loss is computed from all of
them. Backward encodes each part once more, with the random state and the precision that it had. Then it takes the
gradient of its embeddings through it. This is torch's checkpoint with the whole encoder as its segment. So it works for
every loss, with scaling, accumulation, several processes, and checkpoints inside the encoder.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from isotrope.contract.features import EMBEDDING, outputs
from isotrope.errors import UserError


def read_in_parts(
    model: nn.Module, features: dict[str, Any], size: int | None, wanted: Sequence[str] = (EMBEDDING,)
) -> tuple[Tensor, ...]:
    """`isotrope.contract.features.outputs`, ``size`` rows at a time; None or N <= size: all at once.

    The states of all parts are kept: they are what a term reads.
    """
    count = len(features["input_ids"])
    if size is None or count <= size:
        return outputs(model, features, wanted)
    if features["input_ids"].is_mps:
        remedy = "leave it out, or train on a CPU or a CUDA device"
        raise UserError(f"mini_batch_size = {size} cannot repeat its dropout on an Apple GPU", remedy)
    parts = []
    for start in range(0, count, size):
        # Weights cast by autocast would be shared by all parts, and their gradients be summed in half precision.
        torch.clear_autocast_cache()
        part = {key: value[start : start + size] for key, value in features.items() if isinstance(value, Tensor)}
        parts.append(checkpoint(_outputs, model, features | part, wanted, use_reentrant=False))
    return tuple(torch.cat(each) for each in zip(*parts, strict=True))


def _outputs(model: nn.Module, features: dict[str, Any], wanted: Sequence[str]) -> tuple[Tensor, ...]:
    return outputs(model, dict(features), wanted)  # the encoder's modules write into it, and it is read again
