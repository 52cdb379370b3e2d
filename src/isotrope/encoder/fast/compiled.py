"""Layers compiled by torch: on a GPU a small batch otherwise waits for the launches of its many small kernels.

Each layer alone, in place: a model compiles in the time of one layer, and its weights keep their names.
"""

import os
import shutil
from functools import partial, update_wrapper
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from isotrope.encoder.fast.packed import forward, supports
from isotrope.errors import UserError

COMPILERS = ("g++", "clang++", "c++", "cl")
SHAPES = 64  # that are compiled; torch's own limit of 8 would have it compute further ones eagerly


def compile_layers(model: nn.Module) -> None:
    """Compile the encoder within ``model`` for training, in place; without gradients it computes as before.

    Batches then come in few shapes: lengths are multiples of `packed.WIDTH`, tokens of a sixteenth of the padded batch.
    Dropout draws other masks from the same seed. Saved models know nothing of it.
    """
    encoder = next((part for part in model.modules() if isinstance(part, PreTrainedModel)), None)
    if encoder is None or not supports(getattr(encoder, "config", None)) or not isinstance(encoder.forward, partial):
        kind = type(encoder or model).__name__
        raise UserError(f"train.compile = true: isotrope does not compile {kind}", "set train.compile = false")
    if not (os.environ.get("CXX") or any(map(shutil.which, COMPILERS))):
        raise UserError(
            "train.compile = true needs a C++ compiler, and none is found", "install g++, or set train.compile = false"
        )
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, SHAPES)
    for layer in layers(encoder):
        layer.compile(dynamic=False)
    encoder.forward = update_wrapper(partial(_forward, encoder), encoder.forward)


def _forward(encoder: PreTrainedModel, *args: Any, **kwargs: Any) -> Any:
    """With gradients in few shapes, compiled; without them in any shape, as before."""
    if torch.is_grad_enabled():
        return forward(encoder, *args, few_shapes=True, **kwargs)
    with torch.compiler.set_stance("force_eager"):
        return forward(encoder, *args, **kwargs)


def layers(encoder: PreTrainedModel) -> nn.ModuleList:
    """The transformer layers of an encoder, whatever it calls them."""
    count = encoder.config.num_hidden_layers
    return next(part for part in encoder.modules() if isinstance(part, nn.ModuleList) and len(part) == count)
