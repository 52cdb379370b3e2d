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
# Views that differ by less than this share of the largest value differ by rounding.
EQUAL_VIEWS = 1e-4
HALF_PRECISION = {torch.bfloat16, torch.float16}


class LossTerms(dict[str, Tensor]):
    """Name -> loss term (), for sentence-transformers' trainer. Other losses multiply the loss that
    they wrap.
    """

    def __mul__(self, weight: object) -> Any:
        """Refuse a weight: an objective cannot stand inside another loss."""
        problem = "Objective does not work inside another loss, such as MatryoshkaLoss"
        remedy = "give the trainer Objective alone; for several widths write Objective(…, dims=[…])"
        raise UserError(problem, remedy, code="objective-in-a-loss")

    __rmul__ = __mul__


def check_objective(
    model: Any,
    passes: int,
    dims: Sequence[int],
    components: Sequence[Any],
) -> None:
    """Check what an objective is made of. Warns of weights in half precision.

    Args:
        model: the encoder.
        passes: how often each text is encoded.
        dims: widths at which the loss is computed too.
        components: those of each stage, in the order of `STAGES`: a sequence, or by name.

    Raises UserError if no objective can be made of them.
    """
    _check_model(model)
    width = model.get_embedding_dimension()
    narrowest = min(dims, default=1)
    widest = max(dims, default=1)
    if narrowest < 1 or widest > (width or widest):
        problem = f"dims = {list(dims)} is not possible"
        remedy = f"list widths from 1 to the model's, which is {width}"
        raise UserError(problem, remedy, code="impossible-dims")

    by_stage = dict(zip(STAGES, components, strict=True))
    for stage, of_stage in by_stage.items():
        if isinstance(of_stage, Mapping):
            of_stage = of_stage.values()
        for component in of_stage:
            if stage in OF_PASSES:
                component = _of_passes(stage, component, passes)
            _check_component(stage, component)
    _check_peers(by_stage["peers"])


def _check_model(model: Any) -> None:
    if not isinstance(model, SentenceTransformer):
        problem = f"Objective trains a SentenceTransformer, and was given a {type(model).__name__}"
        remedy = "load an embedding model, such as isotrope.load('bert-base-uncased')"
        raise UserError(problem, remedy, code="no-sentence-transformer")
    if (width := model.truncate_dim) is not None:
        problem = f"the model has truncate_dim = {width}, which training does not use"
        remedy = (
            "set model.truncate_dim = None (in a saved model: remove it from"
            f" config_sentence_transformers.json); Objective(…, dims=[{width}]) trains that width"
        )
        raise UserError(problem, remedy, code="truncated-model")
    dtypes = {weight.dtype for weight in model.parameters() if weight.requires_grad}
    for dtype in HALF_PRECISION & dtypes:
        name = str(dtype).removeprefix("torch.")
        problem = f"Weights in {name} lose small updates or diverge"
        remedy = "Call model.float(), and for speed give bf16=True or fp16=True to the trainer"
        warnings.warn(f"{problem}. {remedy}.", stacklevel=4)


def _of_passes(
    stage: str,
    pair: Any,
    passes: int,
) -> Any:
    """The step or peer of a pair (component, numbers of its passes)."""
    count = max(2, passes)  # a column of positives has a pass of its own
    component, on = pair, []
    if isinstance(pair, tuple | list) and len(pair) == 2:
        component, on = pair
    is_list = isinstance(on, Collection) and len(on) > 0
    numbers = set(range(count))
    if not is_list or not numbers.issuperset(on):
        problem = f"{stage}: {component!r:.60} is on in passes {on!r}, of {count}"
        remedy = (
            f"count its passes from 0: on = [1] in a preset, {stage}=[(component, [1])] in a script"
        )
        raise UserError(problem, remedy, code="impossible-passes")
    return component


def _check_component(stage: str, component: Any) -> None:
    is_here = getattr(component, "stage", stage) == stage
    is_made = not isinstance(component, type)
    can_be_called = callable(component) or hasattr(component, "build")
    # A teacher is given row ids, so it cannot be a model that reads texts.
    is_model = isinstance(component, nn.Module)
    reads_texts = stage == "teachers" and is_model
    if is_here and is_made and can_be_called and not reads_texts:
        return
    problem = f"{stage} holds {component!r:.60}, which is not one of its components"
    raise UserError(problem, f'make one: component("{stage}", …)', code="not-a-component")


def _check_peers(peers: Sequence[tuple[Any, Sequence[int]]]) -> None:
    """Each pass may have one peer, and pass 0 none."""
    numbers: list[int] = []
    for _, on in peers:
        numbers += on
    distinct = set(numbers)
    if 0 in distinct or len(distinct) < len(numbers):
        remedy = "leave pass 0 to the student, and give each of the others to one peer"
        raise UserError(f"peers are on in the passes {numbers}", remedy, code="impossible-passes")


def check_columns(
    objective: Any,
    columns: Sequence[Mapping[str, Any]],
    labels: Tensor | None,
) -> None:
    """Check that an objective can read the data: row ids in every step, all else in the first step
    of training.
    """
    if labels is None and objective.teachers:
        problem = "the data has no row ids for the teachers"
        raise UserError(problem, "add an integer column 'label' of row numbers", code="no-row-ids")
    if not objective.training or objective.step:
        return
    for name, term in objective.terms.items():
        if getattr(term, "needs_positives", False) and len(columns) == 1:
            problem = f"terms.{name} compares two texts of a row, and the data has one column"
            remedy = "name the other: --positive COLUMN, such as translations there and back"
            raise UserError(problem, remedy, code="no-positives")
    if labels is not None and not _are_row_ids(labels):
        problem = "the data has a column of labels or scores, which Objective does not use"
        remedy = "remove it: Objective needs no labels, and takes numbers for row ids for teachers"
        raise UserError(problem, remedy, code="labels-in-training")
    _check_first_batch(columns[0]["input_ids"])


def _are_row_ids(labels: Tensor) -> bool:
    """Whether these may be numbers of rows (N,): of classes or scores, many are equal."""
    if labels.is_floating_point():
        return False
    distinct = set(labels.tolist())
    return 2 * len(distinct) >= len(labels)


def _check_first_batch(ids: Tensor) -> None:
    # Not before training, where rows come in the file's order and may share a long beginning.
    is_training = torch.is_grad_enabled()
    is_batch = ids.dim() == 2 and len(ids) > 1
    if not is_training or not is_batch:
        return
    if bool((ids == ids[0]).all()):
        problem = "all texts of the first batch are equal, as far as the model reads them"
        remedy = "check the data: are the texts empty, or is the maximum length too short?"
        raise UserError(problem, remedy, code="equal-texts")


def check_views(objective: Any, views: Views) -> None:
    """Check in the first step that something can be learned from the views."""
    if not objective.training or objective.step:
        return
    is_alone = len(views.stack) < 2
    if is_alone and not all(_said_by_terms(objective, "one_view")):
        problem = "passes = 1 leaves one view, with nothing to compare it with"
        remedy = "choose passes=2 or more, or a view step with copies"
        raise UserError(problem, remedy, code="one-view")
    _check_negatives(objective, views)
    if _are_equal(objective, views):
        remedy = (
            "give the encoder dropout: isotrope.load(model, dropout=0.1) in a script,"
            " encoder.dropout in a preset; word vectors, which have none, need a column of"
            ' positives, or tokens=[(component("tokens", "cutoff"), [1])]'
        )
        problem = "the two views of every sentence are equal, so there is nothing to learn"
        raise UserError(problem, remedy, code="equal-views")


def _are_equal(objective: Any, views: Views) -> bool:
    """Whether the first and the last view are equal, which teaches these terms nothing."""
    stack = views.stack  # (V, N, D)
    if len(stack) == 1 and all(_said_by_terms(objective, "one_view")):
        return False
    if any(_said_by_terms(objective, "equal_views")):
        return False
    difference = stack[0] - stack[-1]
    largest_difference = difference.abs().max()
    limit = EQUAL_VIEWS * stack.abs().max()
    return bool(largest_difference <= limit)


def _said_by_terms(objective: Any, attribute: str) -> list[bool]:
    """Whether each of the terms says so of itself."""
    return [getattr(term, attribute, False) for term in objective.terms.values()]


def _check_negatives(objective: Any, views: Views) -> None:
    """Refuse hard negatives that no step reads. A step of somebody else may read them."""
    if not views.negatives.shape[1]:
        return
    for step in objective.scores:
        of_others = not type(step).__module__.startswith("isotrope.")
        if of_others or isinstance(step, HardNegatives):
            return
    if any(_said_by_terms(objective, "reads_negatives")):
        return
    problem = "the data has hard negatives, and no step uses them"
    remedy = (
        'add scores=[component("scores", "hard_negatives")], or remove the columns after the second'
    )
    raise UserError(problem, remedy, code="unused-negatives")
