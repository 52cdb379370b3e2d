"""What an objective refuses, each in one line: at construction where that can be known, else in the first step."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Router
from torch import Tensor, nn

from isotrope.components.registry import STAGES, component_class, is_third_party
from isotrope.encoder.pooling import Dense
from isotrope.errors import UserError
from isotrope.scores.hard_negatives import HardNegatives
from isotrope.types import Views

OF_PASSES = ("tokens", "peers")  # stages whose components are on for some passes
EQUAL = 1e-4  # views that differ by less, as a share of the largest value, differ by rounding
HALF = {
    torch.bfloat16: "bfloat16, where most small updates are lost",
    torch.float16: "float16, where Adam's steps are far too large",
}


class LossTerms(dict[str, Tensor]):
    """Name -> loss term (), for sentence-transformers' trainer. Other losses multiply the loss that they wrap."""

    def __mul__(self, weight: object) -> Any:
        """Refuse a weight.

        Raises:
            UserError: always. An objective cannot stand inside another loss.
        """
        problem = "Objective does not work inside another loss, such as MatryoshkaLoss or AdaptiveLayerLoss"
        raise UserError(problem, "give Objective alone to the trainer; for several widths write Objective(…, dims=[…])")

    __rmul__ = __mul__


def check_passes(views: Mapping[str, Any], terms: Mapping[str, str]) -> None:
    """Check a preset's number of views. One is enough where every term compares a sentence with its teacher.

    Args:
        views: the table of that stage.
        terms: label -> kind. A third party's term is asked in the first step.

    Raises:
        UserError: there is one view, and a term that needs two.
    """
    copied = any(isinstance(table, Mapping) and table.get("copies", 1) != 1 for table in views.values())
    if views.get("passes", 2) > 1 or copied:
        return
    for label, kind in terms.items():
        if not is_third_party(kind) and not getattr(component_class("terms", kind), "one_view", False):
            problem = f"views.passes = 1 leaves one view, with nothing to compare it with (terms.{label})"
            raise UserError(problem, "choose 2 or more, or a view step with copies")


def refuse(model: Any, passes: Any, dims: Any, mini_batch_size: int | None, parts: Sequence[Any]) -> None:
    """Check all that is known when an objective is made; ``parts``: the components of each of `STAGES`, as given.

    Warns of weights in half precision.

    Raises:
        UserError: names what is wrong, and its value.
    """
    _check_student(model)
    if not isinstance(passes, int) or passes < 1:
        raise UserError(f"passes = {passes!r} is not possible", "choose a whole number from 1; 2 give two views")
    width = model.get_embedding_dimension()
    if not isinstance(dims, Sequence) or not all(isinstance(dim, int) and 1 <= dim <= (width or dim) for dim in dims):
        problem = f"dims = {dims!r} is not possible"
        raise UserError(problem, f"list widths of at least 1 and at most the model's, which is {width}")
    if mini_batch_size is not None and (not isinstance(mini_batch_size, int) or mini_batch_size < 1):
        raise UserError(f"mini_batch_size = {mini_batch_size!r} is not possible", "choose 1 or more, or leave it out")
    stages = dict(zip(STAGES, parts, strict=True))
    for stage, given in stages.items():
        _check_stage(stage, given, passes)
    if len(set(read := [number for _, on in stages["peers"] for number in on])) < len(read):
        raise UserError(f"peers: two of them are on in one of the passes {read}", "give each pass to one")
    for step in stages["views"]:
        if getattr(step, "dim", None) not in (None, width):
            problem = f"{type(step).__name__}(dim={step.dim}) does not fit the model, which has {width} dimensions"
            raise UserError(problem, "leave dim out: the model's width is taken")


def _check_student(model: Any) -> None:
    if not isinstance(model, SentenceTransformer):
        problem = f"Objective trains a SentenceTransformer, and was given a {type(model).__name__}"
        raise UserError(problem, "load an embedding model, such as isotrope.load('bert-base-uncased')")
    if (cut := model.truncate_dim) is not None:
        problem = f"the model has truncate_dim = {cut}, which training does not use"
        remedy = "set model.truncate_dim = None (in a saved model: remove it from config_sentence_transformers.json)"
        raise UserError(problem, f"{remedy}; Objective(…, dims=[{cut}]) trains that width")
    width = None
    for module in model.children():
        if isinstance(module, Dense) and width not in (None, module.in_features):
            problem = f"the model's Dense layer takes {module.in_features} dimensions and gets {width}"
            raise UserError(problem, f"make it with in_features={width}")
        if hasattr(module, "get_embedding_dimension"):
            width = module.get_embedding_dimension() or width
    trained = [weight.dtype for weight in model.parameters() if weight.requires_grad]
    if not trained:
        raise UserError("no weight of the model can be trained", "call model.requires_grad_(True), or add an adapter")
    for dtype in HALF.keys() & trained:
        remedy = "Call model.float(), and give bf16=True or fp16=True to the training arguments for speed"
        warnings.warn(f"The model's weights are in {HALF[dtype]}. {remedy}.", stacklevel=4)


def _check_stage(stage: str, given: Any, passes: int) -> None:
    named = stage in ("terms", "teachers")
    if not isinstance(given, Mapping if named else Sequence):
        form = f'{stage}={{"name": …}}' if named else f"{stage}=[…]"
        raise UserError(f"{stage} = {given!r:.60} is not a {'dictionary' if named else 'list'}", f"write {form}")
    if stage == "terms" and not given:
        raise UserError("there are no terms, so no loss", 'give some: {"infonce": component("terms", "infonce")}')
    parts: Iterable[Any] = given.values() if isinstance(given, Mapping) else given
    for each in parts:
        part = _of_passes(stage, each, passes) if stage in OF_PASSES else each
        if isinstance(part, type) or not (callable(part) or hasattr(part, "build")):
            raise UserError(
                f"{stage} holds {part!r:.60}, which is not a component", f'make one: component("{stage}", …)'
            )
        if (own := getattr(part, "stage", stage)) != stage:
            raise UserError(f"{type(part).__name__} stands in {stage}, and belongs to {own}", f"move it to {own}")
        if stage == "teachers" and isinstance(part, nn.Module):
            problem = f"a teacher is given row ids, and {type(part).__name__} is a model of texts"
            raise UserError(problem, 'make one: component("teachers", "live", models=[…]).build(context)')


def _of_passes(stage: str, pair: Any, passes: int) -> Any:
    """The step or peer of a pair (component, numbers of its passes)."""
    one = stage.removesuffix("s") if stage == "peers" else "step"
    remedy = f"give pairs of a {one} and its passes, counted from 0: {stage}=[({one}, [1])]"
    if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[1], Iterable):
        raise UserError(f"{stage} holds {pair!r:.60}", remedy)
    step, on = pair
    count = max(2, passes)  # a column of positives has a pass of its own
    if not on or not all(number in range(count) for number in on):
        raise UserError(f"{stage}: {type(step).__name__} is on in passes {on!r}, of {count}", remedy)
    if stage == "peers" and 0 in on:
        raise UserError(f"peers: {type(step).__name__} is on in pass 0", "leave it to the student: on = [1]")
    return step


def check_columns(objective: Any, columns: Sequence[Mapping[str, Any]], labels: Tensor | None) -> None:
    """Check that an objective can read the data: row ids in every step, all else in the first step of training.

    Raises:
        UserError: teachers have no row ids; there is no text, or no token ids; a Router was not told a column's route;
            the labels are no row ids; all texts are equal.
    """
    if labels is None and objective.teachers:
        raise UserError("the data has no row ids for the teachers", "add an integer column 'label' of row numbers")
    if not objective.training or objective.step:
        return
    if not columns:
        raise UserError("the data has no column of texts", "add one; 'label' is for the row ids that teachers need")
    for name, term in objective.terms.items():
        if len(columns) == 1 and getattr(term, "needs_positives", False):
            problem = f"terms.{name} compares each text with another one of its row, and the data has one column"
            raise UserError(problem, "name that column: --positive COLUMN, such as translations there and back")
    if labels is not None and (labels.is_floating_point() or 2 * len(set(labels.tolist())) < len(labels)):
        problem = "the data has a column of labels or scores, which Objective does not use"
        raise UserError(problem, "remove it: Objective needs no labels, and takes the numbers for row ids for teachers")
    router = next((module for module in objective.model.modules() if isinstance(module, Router)), None)
    for column in columns:
        if "input_ids" not in column:
            raise UserError("the model does not read token ids", "choose one that begins with a Transformer")
        routed = router is None or column.get("task") or any(task is None for task, _ in router.route_mappings)
        if not routed:
            remedy = 'name it for every column in the training arguments: router_mapping={"text": "document"}'
            raise UserError("the model has a Router, and a column of texts has no route", remedy)
    ids = columns[0]["input_ids"]
    # Not before training, where rows come in the file's order and may share a long beginning.
    if torch.is_grad_enabled() and ids.dim() == 2 and len(ids) > 1 and bool((ids == ids[0]).all()):
        problem = "all texts of the first batch are equal, as far as the model reads them"
        raise UserError(problem, "check the data: are the texts empty, or is the maximum length too short?")


def check_views(objective: Any, views: Views, columns: Sequence[Mapping[str, Any]]) -> Views:
    """The views, of which something can be learned: a check in the first step. In evaluation, warn of equal views.

    Raises:
        UserError: there is one view or one sentence; no step uses the hard negatives; an embedding is zero; the first
            view and the last are equal.
    """
    stack, scores = views.stack, objective.scores  # (V, N, D)
    if objective.training and objective.step:
        return views
    one = len(stack) == 1 and all(getattr(term, "one_view", False) for term in objective.terms.values())
    equal = not one and bool((stack[0] - stack[-1]).abs().max() <= EQUAL * stack.abs().max())
    if not objective.training:
        if equal:
            said = "The evaluation loss compares equal views: it only tells how far apart the texts are"
            warnings.warn(f"{said}. Choose checkpoints with an evaluator, or with pairs.", stacklevel=2)
        return views
    if len(stack) < 2 and not one:
        remedy = "choose passes=2 or more, or a view step with copies"
        raise UserError("passes = 1 leaves one view, with nothing to compare it with", remedy)
    if stack.shape[1] == 1 and not scores:
        remedy = "raise per_device_train_batch_size, for example to 64"
        raise UserError("the batch has one sentence, with nothing to compare it with", remedy)
    reads = any(getattr(term, "reads_negatives", False) for term in objective.terms.values())
    if (
        views.negatives.shape[1]
        and not reads
        and all(
            type(step).__module__.startswith("isotrope.") and not isinstance(step, HardNegatives) for step in scores
        )
    ):
        remedy = 'add scores=[component("scores", "hard_negatives")], or remove the columns behind the second'
        raise UserError("the data has hard negatives, and no step uses them", remedy)
    if count := int((stack == 0).all(dim=-1).any(dim=0).sum()):
        problem = f"{count} of the first {stack.shape[1]} texts have an embedding of zeros"
        raise UserError(problem, "remove empty texts, and those without a known word")
    if equal:
        remedy = "give the encoder dropout: isotrope.load(model, dropout=0.1) in a script, encoder.dropout in a preset"
        if "offsets" in columns[0]:
            words = "word vectors have no dropout; give a second column of positives, or a token step"
            remedy = f'{words}: tokens=[(component("tokens", "cutoff"), [1])]'
        raise UserError("the two views of every sentence are equal, so there is nothing to learn", remedy)
    return views
