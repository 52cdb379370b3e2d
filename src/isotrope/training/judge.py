"""The last step of a run: the new model against the one that the user gave, on the same pairs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from isotrope.console.progress import watch
from isotrope.encoder.load import load
from isotrope.encoder.locate import is_bare, public_name
from isotrope.errors import UserError
from isotrope.evaluation.sets.senteval import STS_TASKS
from isotrope.evaluation.significance import compare
from isotrope.evaluation.sts import Sets, main_pairs, score, similarities
from isotrope.evaluation.verdict import Verdict
from isotrope.preset.head import head_classes
from isotrope.preset.preset import Preset
from isotrope.report.comparison import SHORT_NAMES, with_average
from isotrope.training.fit import TrainingOutcome
from isotrope.training.folder import Time, only_cosines
from isotrope.training.prepare import TrainingPlan
from isotrope.training.processes import process_number

AFTER = "the new model"
COLUMNS = ("before", "after", "difference", "low", "high", "p")  # of the table
WITHOUT_LABELS = "Give graded pairs (--labels FILE.tsv, or --data) to have it tested."


def judge(plan: TrainingPlan, outcome: TrainingOutcome) -> dict[str, Any]:
    """Compare before and after, by a paired bootstrap over the judging pairs -> what ``result.json`` holds."""
    measure(plan, "after")
    corpus = plan.sample.corpus
    return {
        "preset": plan.preset.name,
        "model": public_name(plan.preset.encoder.backbone),
        "seed": plan.settings.seed,
        "corpus": {"key": corpus.key, "rows": len(corpus), "used": len(plan.sample)},
        **({"head": list(head_classes(plan.preset))} if plan.preset.train.keep_head else {}),
        "selection": {"sets": list(plan.selecting), **asdict(outcome)},
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
    if {task: set(parts) for task, parts in kept.items()} != {task: set(parts) for task, parts in plan.judging.items()}:
        plan.console.print(f"encoding {judge_words(plan.judging)} that judge the run ({time})")
        with watch("encoding", plan.console):
            model = plan.model if time == "after" else load(plan.preset.encoder.backbone, frozen=True)
            plan.folder.write_cosines(time, plan.judging, similarities(model, plan.judging))


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
