"""The training head as part of the model: WhitenedCSE's "representation" is the output of its head (Sec. 4.1).

Zhuo et al., ACL 2023, https://aclanthology.org/2023.acl-long.677
"""

from copy import copy
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from torch import nn

from isotrope.components.registry import component_class
from isotrope.errors import UserError
from isotrope.preset.preset import Preset


def head_classes(preset: Preset) -> dict[str, type]:
    """Label -> class of the view steps that ``train.keep_head`` keeps, in order; {} without that key."""
    labels = preset.views.get("order", [label for label, table in preset.views.items() if isinstance(table, dict)])
    kinds = {label: preset.views[label].get("kind", label) for label in labels if preset.train.keep_head}
    return {label: component_class("views", kind) for label, kind in kinds.items()}


def check_head(preset: Preset) -> None:
    """Check that the preset has a head to keep, if it asks for that."""
    if not preset.train.keep_head:
        return
    if not (found := head_classes(preset)):
        problem = f"train.keep_head = true, and the preset {preset.name} has no head"
        raise UserError(problem, "leave it out" + ("" if preset.loss else ", or add a table [views.mlp]"))
    for label, cls in found.items():
        if not hasattr(cls, "layers"):
            problem = f"train.keep_head = true, and views.{label} cannot be part of a model"
            raise UserError(problem, f"leave it out, or give {cls.__name__} a method layers()")


def head_layers(objective: Any) -> list[nn.Module]:
    """The view steps as they are now, as modules of sentence-transformers: (N, D) -> (N, D).

    Rows have unit length at the end where the encoder's have.
    """
    layers = [layer for step in objective.views for layer in step.layers()]
    return [*layers, *([Normalize()] if isinstance(objective.model[-1], Normalize) else [])]


def with_head(objective: Any, model: SentenceTransformer | None = None) -> SentenceTransformer:
    """``model``, else the objective's, with the head behind it. It shares the model's weights and copies the head's."""
    model = model or objective.model
    whole: SentenceTransformer = copy(model)
    whole._modules = dict(model._modules)
    for layer in head_layers(objective):
        whole.append(layer)
    return whole
