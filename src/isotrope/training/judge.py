"""The last step of a run: the new model against the one that the user gave, on the same labels; and
its card.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from sentence_transformers import SentenceTransformer

from isotrope.components.citations import cited_keys
from isotrope.console.progress import watch
from isotrope.encoder.load import load
from isotrope.encoder.locate import is_bare, public_name
from isotrope.evaluation.sets.labels import in_words
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.evaluation.sets.senteval import STS_TASKS
from isotrope.evaluation.significance import compare, compare_means
from isotrope.evaluation.sts import SimilaritySets, main_pairs, pair_similarities, score
from isotrope.evaluation.verdict import Verdict
from isotrope.preset.sources import OWN_SETTING, sourced
from isotrope.report.card import Card, Data, Step
from isotrope.report.comparison import SHORT_NAMES, before_after, with_average
from isotrope.training.fit import FitOutcome
from isotrope.training.folder import write_cosines
from isotrope.training.prepare import TrainingPlan
from isotrope.training.processes import process_count

AFTER = "the new model"
TABLE_COLUMNS = ("before", "after", "difference", "low", "high", "p")
WITHOUT_LABELS = "Give labels (--labels FILE, or --data) to have it tested."
HOW_PAIRS = "Pairs: Spearman's correlation × 100 between cosines and graded similarity."
HOW_TESTED = (
    "A paired bootstrap tests the change."
    " It covers the choice of pairs and texts, not the training seed."
)
HOW_WITH_HEAD = "The new model is judged with its training head, which is part of it."


def judge(plan: TrainingPlan, outcome: FitOutcome) -> dict[str, Any]:
    """Compare before and after -> what ``result.json`` holds.

    Before is the model as the user gave it, with its own pooling and prompts: the preset's are part
    of what is judged.
    """
    preset = plan.preset
    record: dict[str, Any] = {
        "preset": preset.name,
        "model": public_name(preset.encoder.backbone),
        "seed": plan.seed,
        "corpus": {"key": plan.corpus.key, "rows": len(plan.corpus), "used": len(plan.sample)},
    }
    if preset.train.keep_head:
        record["head"] = preset.head
    record["selection"] = {"sets": list(plan.selecting), **asdict(outcome)}

    if plan.searched is not None:
        return record | _judged_by_search(plan, plan.searched)
    if plan.judging:
        return record | _judged_by_pairs(plan, plan.judging)
    verdict = Verdict.not_tested(before=_model_before(plan), after=AFTER, advice=WITHOUT_LABELS)
    return record | {"verdict": verdict.record(), "table": {}}


def _model_before(plan: TrainingPlan) -> str:
    """The model as the user gave it, in words."""
    backbone = plan.preset.encoder.backbone
    name = public_name(backbone)
    if is_bare(backbone):
        name += " (a raw language model, pooled as sentence-transformers loads it)"
    return name


def _given_model(plan: TrainingPlan) -> SentenceTransformer:
    """The model as the user gave it, loaded again: the training has changed the other."""
    return load(plan.preset.encoder.backbone, frozen=True)


def _judged_by_search(plan: TrainingPlan, queries: RetrievalSet) -> dict[str, Any]:
    """The verdict by queries with judgements."""
    words = in_words(queries)
    with watch("encoding", plan.console, words):
        before = queries.score(_given_model(plan))
        after = queries.score(plan.model)
    comparison = compare_means(before, after)
    verdict = Verdict.of(
        comparison,
        before=_model_before(plan),
        after=AFTER,
        judge=words,
        measure="nDCG@10 × 100",
    )
    return {
        "verdict": verdict.record(),
        "table": {queries.name: _table_row(asdict(comparison))},
    }


def _judged_by_pairs(plan: TrainingPlan, sets: SimilaritySets) -> dict[str, Any]:
    """The verdict by graded pairs, and the scores that it rests on. Their cosines are kept in the
    folder.
    """
    words = _pairs_in_words(sets)
    plan.console.print(f"encoding {words} that judge the run")
    with watch("encoding", plan.console):
        before = pair_similarities(_given_model(plan), sets)
        after = pair_similarities(plan.model, sets)
    write_cosines(plan.folder.path / "before.npz", sets, before)
    write_cosines(plan.folder.path / "after.npz", sets, after)

    comparison = compare(main_pairs(sets, before), main_pairs(sets, after), seed=0)
    verdict = Verdict.of(
        comparison,
        before=_model_before(plan),
        after=AFTER,
        judge=words,
        measure="Spearman × 100",
    )
    numbers = asdict(comparison)
    changes = with_average(numbers)
    return {
        "verdict": verdict.record(),
        "table": {task: _table_row(change) for task, change in changes.items()},
        "comparison": numbers,
        "before": score(sets, before),
        "after": score(sets, after),
    }


def _table_row(change: Mapping[str, Any]) -> dict[str, Any]:
    """What the table shows of a change."""
    return {key: change[key] for key in TABLE_COLUMNS}


def _pairs_in_words(sets: SimilaritySets) -> str:
    """What judges: "1,379 graded pairs of STS-B"."""
    count = 0
    for parts in sets.values():
        count += sum(len(pairs) for pairs in parts.values())
    names = ", ".join(SHORT_NAMES.get(task, task) for task in sets)
    if set(sets) == set(STS_TASKS):
        names = "the seven STS tasks"
    return f"{count:,} graded pairs of {names}"


def run_card(plan: TrainingPlan, result: Mapping[str, Any]) -> Card:
    """The card of the trained model: that of the model it began with, and the training with its
    ``result.json``.
    """
    card = Card.of(plan.preset.encoder.backbone).then(_step(plan), plan.model)
    verdict = Verdict.from_record(result["verdict"])
    if len(card.steps) > 1:  # else it is the base model
        verdict = replace(verdict, before=f"the model before step {len(card.steps)}")
    if "comparison" in result:
        notes = [HOW_PAIRS, HOW_TESTED]
        if "head" in result:
            notes.append(HOW_WITH_HEAD)
        return card.judged(verdict, before_after("", with_average(result["comparison"]), "", notes))
    if verdict.scores:
        (change,) = result["table"].values()
        changes = {verdict.measure: {**change, "verdict": verdict.word}}
        return card.judged(verdict, before_after("", changes, ""))
    return card


def _step(plan: TrainingPlan) -> Step:
    """The training, as a step of the model's history."""
    text = plan.text
    sources = [text.name] if text.in_memory else text.paths
    return Step(
        action="Trained with",
        method=plan.preset.name,
        data=Data.of(sources, len(plan.corpus), len(plan.sample), plan.corpus.key),
        settings=list(_settings(plan)),
        cites=cited_keys(entry.cls for entry in plan.preset.parts()),
        limits=list(_limits(plan)),
    )


def _limits(plan: TrainingPlan) -> Iterator[str]:
    """What the training did not see or do."""
    preset = plan.preset
    if preset.train.keep_head:
        head = ", ".join(preset.head)
        yield f"The training head ({head}) is part of the model (train.keep_head)."
    yield f"In training it saw at most {preset.train.max_length:,} tokens of a text."
    if plan.selecting:
        sets = ", ".join(plan.selecting)
        yield f"Labelled pairs chose the checkpoint ({sets}). Other pairs judged the model."


def _settings(plan: TrainingPlan) -> Iterator[tuple[str, str, str]]:
    """Key, value and source. Of a model's path only the last part is told."""
    for key, value, source in sourced(plan.preset, plan.preset.name):
        if key == "train.select" and json.loads(value) != list(plan.selecting):
            yield key, json.dumps(list(plan.selecting), ensure_ascii=False), OWN_SETTING
        elif key.endswith((".backbone", ".models", ".model")):
            yield key, _public_names(value), source
        else:
            yield key, value, source

    options = {
        "seed": str(plan.seed),
        "processes": str(process_count()),
        "held_out": str(plan.held_out or ""),
        "split": plan.text.split,
        "keep_duplicates": "true" if plan.text.keep_duplicates else "",
    }
    for key, option in options.items():
        if option:
            yield key, option, OWN_SETTING


def _public_names(value: str) -> str:
    """A model or a list of models, as JSON."""
    models = json.loads(value)
    if isinstance(models, str):
        return json.dumps(public_name(models), ensure_ascii=False)
    names = [public_name(model) for model in models]
    return json.dumps(names, ensure_ascii=False)
