"""The last step of a run: the new model against the one that the user gave, on the same pairs; and
its card.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from isotrope.components.citations import cited_keys
from isotrope.console.progress import watch
from isotrope.encoder.load import load
from isotrope.encoder.locate import is_bare, public_name
from isotrope.evaluation.sets.labels import in_words
from isotrope.evaluation.sets.senteval import STS_TASKS
from isotrope.evaluation.significance import compare, compare_means
from isotrope.evaluation.sts import SimilaritySets, main_pairs, score, similarities
from isotrope.evaluation.verdict import Verdict
from isotrope.preset.sources import sourced
from isotrope.report.card import Card, Data, Step
from isotrope.report.comparison import SHORT_NAMES, before_after, verdict_table, with_average
from isotrope.training.folder import write_cosines
from isotrope.training.prepare import TrainingPlan
from isotrope.training.processes import process_count

AFTER = "the new model"
COLUMNS = ("before", "after", "difference", "low", "high", "p")  # of the table
WITHOUT_LABELS = "Give labels (--labels FILE, or --data) to have it tested."


def judge(plan: TrainingPlan, outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Compare before and after, by a paired bootstrap over the judging pairs -> what
    ``result.json`` holds.

    Before is the model as the user gave it, with its own pooling and prompts: the preset's are part
    of what is judged. ``outcome`` is what `isotrope.training.fit.fit` gives.
    """
    return {
        "preset": plan.preset.name,
        "model": public_name(plan.preset.encoder.backbone),
        "seed": plan.seed,
        "corpus": {"key": plan.corpus.key, "rows": len(plan.corpus), "used": len(plan.sample)},
        **({"head": plan.preset.head} if plan.preset.train.keep_head else {}),
        "selection": {"sets": list(plan.selecting), **outcome},
        **_judged(plan),
    }


def _judge_words(sets: SimilaritySets) -> str:
    """What judges: "1,379 graded pairs of STS-B"."""
    count = sum(len(pairs) for parts in sets.values() for pairs in parts.values())
    named = (
        "the seven STS tasks"
        if set(sets) == set(STS_TASKS)
        else ", ".join(SHORT_NAMES.get(t, t) for t in sets)
    )
    return f"{count:,} graded pairs of {named}"


def _judged(plan: TrainingPlan) -> dict[str, Any]:
    """The verdict, and the scores behind it."""
    backbone, sets, domain = plan.preset.encoder.backbone, plan.judging, plan.searched
    given = public_name(backbone)
    if is_bare(backbone):
        given += " (a raw language model, pooled as sentence-transformers loads it)"
    if domain is None and not sets:
        return {
            "verdict": Verdict.not_tested(
                before=given, after=AFTER, advice=WITHOUT_LABELS
            ).record(),
            "table": {},
        }
    models = load(backbone, frozen=True), plan.model
    if domain is not None:
        with watch("encoding", plan.console, in_words(domain)):
            old, new = (domain.score(model) for model in models)
        searched = compare_means(old, new)
        verdict = Verdict.of(
            searched, before=given, after=AFTER, judge=in_words(domain), measure="nDCG@10 × 100"
        )
        return {
            "verdict": verdict.record(),
            "table": {domain.name: {key: asdict(searched)[key] for key in COLUMNS}},
        }
    plan.console.print(f"encoding {_judge_words(sets)} that judge the run")
    with watch("encoding", plan.console):
        before, after = (similarities(model, sets) for model in models)
    for time, cosines in (("before", before), ("after", after)):
        write_cosines(plan.folder.path / f"{time}.npz", sets, cosines)
    found = compare(main_pairs(sets, before), main_pairs(sets, after), seed=0)
    verdict = Verdict.of(
        found, before=given, after=AFTER, judge=_judge_words(sets), measure="Spearman × 100"
    )
    return {
        "verdict": verdict.record(),
        "table": {
            task: {key: of[key] for key in COLUMNS}
            for task, of in with_average(asdict(found)).items()
        },
        "comparison": asdict(found),
        "before": score(sets, before),
        "after": score(sets, after),
    }


SET = "set for this run"


def run_card(plan: TrainingPlan, result: Mapping[str, Any]) -> Card:
    """The card of the trained model: that of the model it began with, and the training with its
    ``result.json``.
    """
    preset, corpus, text = plan.preset, plan.corpus, plan.text
    duplicates = "true" if text.keep_duplicates else None
    asked = {"held_out": plan.held_out, "split": text.split, "keep_duplicates": duplicates}
    further = {
        "seed": plan.seed,
        "processes": process_count(),
        **{k: v for k, v in asked.items() if v},
    }
    limits = [f"In training it saw at most {preset.train.max_length:,} tokens of a text."]
    if preset.train.keep_head:
        limits.insert(
            0,
            f"The training head ({', '.join(preset.head)}) is part of the model (train.keep_head).",
        )
    if plan.selecting:
        chose = f"Labelled pairs chose the checkpoint ({', '.join(plan.selecting)})."
        limits.append(f"{chose} Other pairs judged the model.")
    data = Data.of(
        [text.name] if text.in_memory else text.paths, len(corpus), len(plan.sample), corpus.key
    )
    settings = [*_shown(plan), *((key, str(value), SET) for key, value in further.items())]
    cites = cited_keys(part.cls for part in preset.parts())
    step = Step(
        action="Trained with",
        method=preset.name,
        data=data,
        settings=settings,
        cites=cites,
        limits=limits,
    )
    card, verdict = (
        Card.of(preset.encoder.backbone).then(step, plan.model),
        Verdict.from_record(result["verdict"]),
    )
    if len(card.steps) > 1:  # else it is the base model
        verdict = replace(verdict, before=f"the model before step {len(card.steps)}")
    if not (comparison := result.get("comparison")):
        return card.judged(verdict, verdict_table(verdict)) if verdict.scores else card
    how = [
        "Pairs: Spearman's correlation × 100 between cosines and graded similarity.",
        "A paired bootstrap tests the change. It covers the choice of pairs and texts, not the training seed.",
    ]
    if "head" in result:
        how.append("The new model is judged with its training head, which is part of it.")
    return card.judged(verdict, before_after("", with_average(comparison), "", how))


def _shown(plan: TrainingPlan) -> Iterator[tuple[str, str, str]]:
    """The settings; of a model's path, only the last part. The pairs that chose are those that did."""
    for key, value, source in sourced(plan.preset, plan.preset.name):
        if key == "train.select" and json.loads(value) != list(plan.selecting):
            value, source = json.dumps(list(plan.selecting), ensure_ascii=False), SET
        if key.endswith((".backbone", ".models", ".model")):
            found = json.loads(value)
            told = (
                [public_name(model) for model in found]
                if isinstance(found, list)
                else public_name(found)
            )
            value = json.dumps(told, ensure_ascii=False)
        yield key, value, source
