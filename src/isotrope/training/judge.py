"""The last step of a run: the new model against the one that the user gave, on the same pairs; and its card."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from isotrope.components.citations import cited_keys
from isotrope.console.progress import watch
from isotrope.encoder.load import load
from isotrope.encoder.locate import is_bare, public_name
from isotrope.errors import UserError
from isotrope.evaluation.retrieval import OwnTask
from isotrope.evaluation.sets.domain import Domain
from isotrope.evaluation.sets.labels import in_words
from isotrope.evaluation.sets.senteval import STS_TASKS
from isotrope.evaluation.significance import compare, compare_means
from isotrope.evaluation.sts import Sets, main_pairs, score, similarities
from isotrope.evaluation.verdict import Verdict
from isotrope.preset.outside import cited_by_loss
from isotrope.preset.preset import Preset
from isotrope.preset.sources import sourced
from isotrope.report.card import Card, Data, Step
from isotrope.report.comparison import COMPARED, SHORT_NAMES, comparison_rows, verdict_table, with_average
from isotrope.report.tables import Table
from isotrope.training.folder import Time, only_cosines, write_cosines
from isotrope.training.prepare import TrainingPlan
from isotrope.training.processes import process_count, process_number

AFTER = "the new model"
COLUMNS = ("before", "after", "difference", "low", "high", "p")  # of the table
WITHOUT_LABELS = "Give labels (--labels FILE, or --data) to have it tested."


def judge(plan: TrainingPlan, outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Compare before and after, by a paired bootstrap over the judging pairs -> what ``result.json`` holds."""
    measure(plan, "after")
    corpus = plan.sample.corpus
    return {
        "preset": plan.preset.name,
        "model": public_name(plan.preset.encoder.backbone),
        "seed": plan.settings.seed,
        "corpus": {"key": corpus.key, "rows": len(corpus), "used": len(plan.sample)},
        **({"head": plan.preset.head} if plan.preset.train.keep_head else {}),
        "selection": {"sets": list(plan.selecting), **outcome},
        **_verdict(plan),
    }


def measure(plan: TrainingPlan, time: Time) -> None:
    """Encode the judging pairs, unless an earlier call has kept their cosines.

    Before, it is the model as the user gave it, with its own pooling and prompts: the preset's are part of what is
    judged.
    """
    if process_number() != 0 or not plan.judging:
        return
    try:
        kept = plan.folder.cosines(time)
    except UserError as error:  # it can be made again
        plan.console.print(f"{error.problem}; it is made again")
        kept = {}
    if not kept:
        plan.console.print(f"encoding {judge_words(plan.judging)} that judge the run ({time})")
        with watch("encoding", plan.console):
            model = plan.model if time == "after" else load(plan.preset.encoder.backbone, frozen=True)
            write_cosines(plan.folder.path / f"{time}.npz", plan.judging, similarities(model, plan.judging))


def judge_words(sets: Sets) -> str:
    """What judges: "1,379 graded pairs of STS-B"."""
    count = sum(len(pairs) for parts in sets.values() for pairs in parts.values())
    own = "" if set(sets) <= set(STS_TASKS) else "your own "
    named = "the seven STS tasks" if set(sets) == set(STS_TASKS) else ", ".join(SHORT_NAMES.get(t, t) for t in sets)
    return f"{count:,} of {own}graded pairs ({named})" if own else f"{count:,} graded pairs of {named}"


def given_words(preset: Preset) -> str:
    """What the new model is compared with."""
    name = public_name(preset.encoder.backbone)
    bare = is_bare(preset.encoder.backbone)
    return f"{name} (a raw language model, pooled as sentence-transformers loads it)" if bare else name


def _verdict(plan: TrainingPlan) -> dict[str, Any]:
    """The verdict, and the scores behind it."""
    given, sets = given_words(plan.preset), plan.judging
    if isinstance(plan.settings.labels, Domain):
        return _searched(plan, plan.settings.labels, given)
    if not sets:
        verdict = Verdict.not_tested(before=given, after=AFTER, advice=WITHOUT_LABELS)
        return {"verdict": verdict.record(), "table": {}}
    before, after = (only_cosines(plan.folder.cosines(time)) for time in ("before", "after"))
    found = compare(main_pairs(sets, before), main_pairs(sets, after), seed=0)
    verdict = Verdict.of(found, before=given, after=AFTER, judge=judge_words(sets), measure="Spearman × 100")
    return {
        "verdict": verdict.record(),
        "table": {task: {key: of[key] for key in COLUMNS} for task, of in with_average(asdict(found)).items()},
        "comparison": asdict(found),
        "before": score(sets, before),
        "after": score(sets, after),
    }


def _searched(plan: TrainingPlan, domain: Domain, given: str) -> dict[str, Any]:
    """The verdict of labelled queries. The model that was given is still there, so it is asked now."""
    if process_number() != 0:
        return {}
    task = OwnTask(domain)
    with watch("encoding", plan.console, in_words(domain)):
        old, new = (task.score(model) for model in (load(plan.preset.encoder.backbone, frozen=True), plan.model))
    found = compare_means(old, new)
    verdict = Verdict.of(found, before=given, after=AFTER, judge=in_words(domain), measure="nDCG@10 × 100")
    return {"verdict": verdict.record(), "table": {domain.name: {key: asdict(found)[key] for key in COLUMNS}}}


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
        cites=[*cited_keys(part.cls for part in preset.parts()), *cited_by_loss(preset.loss)],
        limits=list(_limits(plan)),
    )
    card = Card.of(preset.encoder.backbone).then(step, plan.model)
    verdict = Verdict.from_record(result["verdict"])
    verdict = replace(verdict, before=_before(card, verdict.before))
    if not (comparison := result.get("comparison")):
        return card.judged(verdict, verdict_table(verdict)) if verdict.scores else card
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
        yield f"The training head ({', '.join(plan.preset.head)}) is part of the model (train.keep_head)."
    yield f"In training it saw at most {plan.preset.train.max_length:,} tokens of a text."
    if plan.selecting:
        yield f"Labelled pairs chose the checkpoint ({', '.join(plan.selecting)}). Other pairs judged the model."
