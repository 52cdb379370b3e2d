"""A fitted linear step as a layer of the model, so that plain sentence-transformers has it."""

from __future__ import annotations

from copy import copy

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize

from isotrope.encoder.pooling import dense
from isotrope.types import Matrix


def with_linear(encoder: SentenceTransformer, mean: Matrix, matrix: Matrix) -> SentenceTransformer:
    """The model with x -> (x − μ) W behind it, for μ (D,) and W (D, K) that are fitted on its vectors.

    Where the model ends with unit length, the new one does too. The given model stays as it is, but the two share
    their modules: train only one of them. `isotrope.encoder.save` writes the new one.

    Vectors that the model cuts to D dimensions (``truncate_dim``) are cut inside the layer, before they are rotated.
    What is cut has no unit length, and gets none.
    """
    unit_length = isinstance(encoder[-1], Normalize) and encoder.truncate_dim is None
    new = copy(encoder)
    new.truncate_dim = None  # it would cut behind the layer
    beyond = int(new.get_embedding_dimension() or 0) - len(mean)
    mean, matrix = np.pad(mean, (0, beyond)), np.pad(matrix, ((0, beyond), (0, 0)))
    layer = dense(torch.from_numpy(matrix.T.copy()), torch.from_numpy(-mean @ matrix))  # x W − μ W
    modules = [*encoder, layer.to(encoder.device), *([Normalize()] if unit_length else [])]
    new._modules = {str(place): module for place, module in enumerate(modules)}
    return new
