"""The training head as part of the model: WhitenedCSE's "representation" is the output of its head (Sec. 4.1).

Zhuo et al., ACL 2023, https://aclanthology.org/2023.acl-long.677
"""

from copy import copy
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from torch import nn


def head_layers(objective: Any) -> list[nn.Module]:
    """The view steps as they are now, as modules of sentence-transformers: (N, D) -> (N, D).

    Rows have unit length at the end where the encoder's have.
    """
    layers = [layer for step in objective.views for layer in step.layers()]
    return [*layers, *([Normalize()] if isinstance(objective.model[-1], Normalize) else [])]


def with_head(objective: Any, model: SentenceTransformer | None = None) -> SentenceTransformer:
    """``model``, else the objective's, with the head behind it. It shares the model's weights and copies the head's."""
    whole: SentenceTransformer = copy(model or objective.model)
    whole._modules = dict(whole._modules)
    for layer in head_layers(objective):
        whole.append(layer)
    return whole
