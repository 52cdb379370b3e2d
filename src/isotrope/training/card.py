"""The cards of trained and of whitened models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from isotrope.components.citations import cited_keys
from isotrope.encoder.locate import public_name
from isotrope.evaluation.verdict import Verdict
from isotrope.preset.head import head_classes
from isotrope.preset.outside import cited_by_loss
from isotrope.preset.preset import component_classes
from isotrope.preset.sources import sourced
from isotrope.report.card import Card, Data, Step
from isotrope.report.comparison import COMPARED, comparison_rows, with_average
from isotrope.report.tables import Table
from isotrope.training.prepare import TrainingPlan
from isotrope.training.processes import process_count

SET = "set for this run"
HOW_GRADED = "Pairs: Spearman's correlation × 100 between cosines and graded similarity."
HEAD_KEPT = "The new model is judged with its training head, which is part of it."
HOW_TESTED = "A paired bootstrap tests the change. It covers the choice of pairs and texts, not the training seed."


def run_card(plan: TrainingPlan, result: Mapping[str, Any]) -> Card:
    """The card of the trained model: that of the model it began with, and the training.

    Args:
        plan: the run; its model is trained.
        result: what ``result.json`` will hold.
    """
    settings, preset, corpus = plan.settings, plan.preset, plan.sample.corpus
    text = settings.corpus
    step = Step(
        action="Trained with",
        method=preset.method,
        data=Data.of([text.name] if text.in_memory else text.paths, len(corpus), len(plan.sample), corpus.key),
        settings=[*_shown(plan), *((key, str(value), SET) for key, value in _further(plan).items())],
        cites=[*cited_keys(component_classes(preset)), *cited_by_loss(preset.loss)],
        limits=list(_limits(plan)),
    )
    card = Card.of(preset.encoder.backbone).then(step, plan.model)
    if not (comparison := result.get("comparison")):
        return card
    verdict = Verdict.from_record(result["verdict"])
    verdict = replace(verdict, before=_before(card, verdict.before))
    how = [HOW_GRADED, HOW_TESTED, *([HEAD_KEPT] if "head" in result else [])]
    return card.judged(verdict, Table("", ["", *COMPARED], comparison_rows(with_average(comparison)), notes=how))


def _before(card: Card, base: str) -> str:
    """What the last step is compared with: the base model, if it is the only step."""
    return base if len(card.steps) == 1 else f"the model before step {len(card.steps)}"


def _further(plan: TrainingPlan) -> dict[str, int | str]:
    settings = plan.settings
    duplicates = "true" if settings.corpus.keep_duplicates else None
    given = {"held_out": settings.held_out, "split": settings.corpus.split, "keep_duplicates": duplicates}
    return {"seed": settings.seed, "processes": process_count(), **{k: v for k, v in given.items() if v}}


def _shown(plan: TrainingPlan) -> Iterator[tuple[str, str, str]]:
    """The settings; of a model's path, only the last part. The pairs that chose are those that did."""
    for key, value, source in sourced(plan.preset, plan.preset.name):
        if key == "train.select" and json.loads(value) != list(plan.selecting):
            value, source = json.dumps(list(plan.selecting), ensure_ascii=False), SET
        if key.endswith((".backbone", ".models", ".model")):
            found = json.loads(value)
            told = [public_name(model) for model in found] if isinstance(found, list) else public_name(found)
            value = json.dumps(told, ensure_ascii=False)
        yield key, value, source


def _limits(plan: TrainingPlan) -> Iterator[str]:
    if plan.preset.train.keep_head:
        yield f"The training head ({', '.join(head_classes(plan.preset))}) is part of the model (train.keep_head)."
    yield f"In training it saw at most {plan.preset.train.max_length:,} tokens of a text."
    if plan.selecting:
        yield f"Labelled pairs chose the checkpoint ({', '.join(plan.selecting)}). Other pairs judged the model."
