"""What an objective refuses, each in one line: at construction where that can be known, else in the
first step.
"""

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from isotrope.components.registry import STAGES
from isotrope.errors import UserError
from isotrope.scores.hard_negatives import HardNegatives
from isotrope.types import Views

OF_PASSES = ("tokens", "peers")  # stages whose components are on for some passes
EQUAL = 1e-4  # views that differ by less, as a share of the largest value, differ by rounding
HALF = {torch.bfloat16, torch.float16}


class LossTerms(dict[str, Tensor]):
    """Name -> loss term (), for sentence-transformers' trainer. Other losses multiply the loss that
    they wrap.
    """

    def __mul__(self, weight: object) -> Any:
        """Refuse a weight: an objective cannot stand inside another loss."""
        problem = "Objective does not work inside another loss, such as MatryoshkaLoss or AdaptiveLayerLoss"
        raise UserError(
            problem,
            "give Objective alone to the trainer; for several widths write Objective(…, dims=[…])",
        )

    __rmul__ = __mul__


def refuse(model: Any, passes: int, dims: Sequence[int], parts: Sequence[Any]) -> None:
    """What shows when an objective is made; ``parts``: the components of each of `STAGES`, as
    given.

    Warns of weights in half precision.
    """
    if not isinstance(model, SentenceTransformer):
        problem = f"Objective trains a SentenceTransformer, and was given a {type(model).__name__}"
        raise UserError(
            problem, "load an embedding model, such as isotrope.load('bert-base-uncased')"
        )
    if (cut := model.truncate_dim) is not None:
        problem = f"the model has truncate_dim = {cut}, which training does not use"
        remedy = "set model.truncate_dim = None (in a saved model: remove it from config_sentence_transformers.json)"
        raise UserError(problem, f"{remedy}; Objective(…, dims=[{cut}]) trains that width")
    for dtype in HALF & {weight.dtype for weight in model.parameters() if weight.requires_grad}:
        remedy = "Call model.float(), and give bf16=True or fp16=True to the training arguments for speed"
        warnings.warn(
            f"Weights in {str(dtype)[6:]} lose small updates or diverge. {remedy}.", stacklevel=3
        )
    width = model.get_embedding_dimension()
    if not all(1 <= dim <= (width or dim) for dim in dims):
        raise UserError(
            f"dims = {list(dims)} is not possible",
            f"list widths from 1 to the model's, which is {width}",
        )
    stages = dict(zip(STAGES, parts, strict=True))
    for stage, given in stages.items():
        for part in given.values() if isinstance(given, Mapping) else given:
            if stage in OF_PASSES:
                part = _of_passes(stage, part, passes)
            own = getattr(part, "stage", stage)
            # a teacher is given row ids
            text_model = stage == "teachers" and isinstance(part, nn.Module)
            if (
                isinstance(part, type)
                or not (callable(part) or hasattr(part, "build"))
                or own != stage
                or text_model
            ):
                remedy = (
                    f"move it to {own}" if own != stage else f'make one: component("{stage}", …)'
                )
                raise UserError(
                    f"{stage} holds {part!r:.60}, which is not one of its components", remedy
                )
    read = [number for _, on in stages["peers"] for number in on]
    if 0 in read or len(set(read)) < len(read):
        problem = f"peers are on in the passes {read}"
        raise UserError(
            problem, "leave pass 0 to the student, and give each of the others to one peer"
        )


def _of_passes(stage: str, pair: Any, passes: int) -> Any:
    """The step or peer of a pair (component, numbers of its passes)."""
    count = max(2, passes)  # a column of positives has a pass of its own
    step, on = pair if isinstance(pair, tuple | list) and len(pair) == 2 else (pair, [])
    if not isinstance(on, Collection) or not on or not all(number in range(count) for number in on):
        remedy = (
            f"count its passes from 0: on = [1] in a preset, {stage}=[(component, [1])] in a script"
        )
        raise UserError(f"{stage}: {step!r:.60} is on in passes {on!r}, of {count}", remedy)
    return step


def check_columns(
    objective: Any, columns: Sequence[Mapping[str, Any]], labels: Tensor | None
) -> None:
    """Check that an objective can read the data: row ids in every step, all else in the first step
    of training.
    """
    if labels is None and objective.teachers:
        raise UserError(
            "the data has no row ids for the teachers",
            "add an integer column 'label' of row numbers",
        )
    if not objective.training or objective.step:
        return
    paired = [
        name for name, term in objective.terms.items() if getattr(term, "needs_positives", False)
    ]
    if paired and len(columns) == 1:
        problem = f"terms.{paired[0]} compares each text with another one of its row, and the data has one column"
        raise UserError(
            problem, "name that column: --positive COLUMN, such as translations there and back"
        )
    if labels is not None and (
        labels.is_floating_point() or 2 * len(set(labels.tolist())) < len(labels)
    ):
        problem = "the data has a column of labels or scores, which Objective does not use"
        raise UserError(
            problem,
            "remove it: Objective needs no labels, and takes the numbers for row ids for teachers",
        )
    ids = columns[0]["input_ids"]
    # Not before training, where rows come in the file's order and may share a long beginning.
    if torch.is_grad_enabled() and ids.dim() == 2 and len(ids) > 1 and bool((ids == ids[0]).all()):
        problem = "all texts of the first batch are equal, as far as the model reads them"
        raise UserError(
            problem, "check the data: are the texts empty, or is the maximum length too short?"
        )


def check_views(objective: Any, views: Views, columns: Sequence[Mapping[str, Any]]) -> Views:
    """The views, of which something can be learned: a check in the first step. In evaluation, warn
    of equal views.
    """
    if objective.training and objective.step:
        return views
    stack, scores, terms = views.stack, objective.scores, objective.terms.values()  # (V, N, D)
    one = len(stack) == 1 and all(getattr(term, "one_view", False) for term in terms)
    equal = not one and bool((stack[0] - stack[-1]).abs().max() <= EQUAL * stack.abs().max())
    equal = equal and not any(getattr(term, "equal_views", False) for term in terms)
    if not objective.training:
        if equal:
            said = "The evaluation loss compares equal views: it only tells how far apart the texts are"
            warnings.warn(
                f"{said}. Choose checkpoints with an evaluator, or with pairs.", stacklevel=2
            )
        return views
    if len(stack) < 2 and not one:
        remedy = "choose passes=2 or more, or a view step with copies"
        raise UserError("passes = 1 leaves one view, with nothing to compare it with", remedy)
    read = any(getattr(term, "reads_negatives", False) for term in terms)
    read = read or any(isinstance(step, HardNegatives) for step in scores)
    # another's step may read them
    ours = all(type(step).__module__.startswith("isotrope.") for step in scores)
    if views.negatives.shape[1] and ours and not read:
        remedy = 'add scores=[component("scores", "hard_negatives")], or remove the columns behind the second'
        raise UserError("the data has hard negatives, and no step uses them", remedy)
    if equal:
        remedy = "give the encoder dropout: isotrope.load(model, dropout=0.1) in a script, encoder.dropout in a preset"
        if "offsets" in columns[0]:
            words = (
                "word vectors have no dropout; give a second column of positives, or a token step"
            )
            remedy = f'{words}: tokens=[(component("tokens", "cutoff"), [1])]'
        raise UserError(
            "the two views of every sentence are equal, so there is nothing to learn", remedy
        )
    return views
