"""The card of a run's model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from isotrope.cards.base import short_name
from isotrope.cards.card import Card, Data, Step
from isotrope.cards.citations import cited_keys
from isotrope.cards.verdict import COMPARED, Judgement, comparison_rows, with_average
from isotrope.objective.preset import component_classes
from isotrope.objective.sources import sourced
from isotrope.run.prepare import TrainingPlan
from isotrope.run.processes import process_count

HOW = (
    "The scores are Spearman's correlation × 100 between cosines and graded similarity, on {count:,} pairs. A paired "
    "bootstrap over the pairs tests the change. It covers the choice of pairs, not the training seed."
)


def run_card(plan: TrainingPlan, result: Mapping[str, Any]) -> Card:
    """The card of the trained model: that of the model it began with, and the training.

    Args:
        plan: the run; its model is trained.
        result: what ``result.json`` will hold.
    """
    settings, preset, corpus = plan.settings, plan.preset, plan.sample.corpus
    step = Step(
        action="Trained with",
        method=preset.name,
        data=Data.of(settings.paths, len(corpus), len(plan.sample), corpus.key),
        settings=[*_shown(plan), *((key, str(value), "set for this run") for key, value in _further(plan).items())],
        cites=cited_keys(component_classes(preset)),
        limits=list(_limits(plan)),
    )
    return (
        Card.of(preset.encoder.backbone).then(step, plan.model).model_copy(update={"verdict": _verdict(plan, result)})
    )


def _verdict(plan: TrainingPlan, result: Mapping[str, Any]) -> Judgement | None:
    if not (comparison := result.get("comparison")):
        return None
    how = HOW.format(count=sum(len(pairs) for parts in plan.judging.values() for pairs in parts.values()))
    rows = comparison_rows(with_average(comparison))
    return Judgement(word=result["verdict"], advice=result["advice"], how=how, header=["", *COMPARED], rows=rows)


def _further(plan: TrainingPlan) -> dict[str, int]:
    return {"seed": plan.settings.seed, "processes": process_count()}


def _shown(plan: TrainingPlan) -> Iterator[tuple[str, str, str]]:
    """The settings; of a model's path, only the last part."""
    for key, value, source in sourced(plan.preset, plan.preset.name):
        if key.endswith((".backbone", ".models", ".model")):
            found = json.loads(value)
            told = [_told(model) for model in found] if isinstance(found, list) else _told(found)
            value = json.dumps(told, ensure_ascii=False)
        yield key, value, source


def _told(model: str) -> str:
    return short_name(model) if Path(model).expanduser().is_dir() else model


def _limits(plan: TrainingPlan) -> Iterator[str]:
    yield f"In training it saw at most {plan.preset.train.max_length:,} tokens of a text."
    if plan.selecting:
        yield f"Labelled pairs chose the checkpoint ({', '.join(plan.selecting)}). Other pairs judged the model."
