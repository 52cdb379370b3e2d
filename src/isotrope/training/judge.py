"""The last step of a run: the new model against the one it began with, on the same pairs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from isotrope.console.progress import watch
from isotrope.errors import UserError
from isotrope.evaluation.significance import compare
from isotrope.evaluation.sts import Cosines, Sets, main_pairs, score, similarities
from isotrope.preset.head import head_classes
from isotrope.training.cosines import only_cosines
from isotrope.training.fit import TrainingOutcome
from isotrope.training.folder import Time
from isotrope.training.prepare import TrainingPlan
from isotrope.training.processes import process_number

ADVICE = {
    "better": "use the new model",
    "worse": "keep the model you began with",
    "not significant": "keep the model you began with, or give the run more text or more pairs to be judged on",
}
NOT_JUDGED = "not judged"
WITHOUT_PAIRS = "name labelled pairs (--dev FILE.tsv, or --data) to have it judged"


def judge(plan: TrainingPlan, outcome: TrainingOutcome) -> dict[str, Any]:
    """Compare before and after, by a paired bootstrap over the judging pairs -> what ``result.json`` holds.

    Raises:
        UserError: a model gives no usable vectors.
    """
    measure(plan, "after")
    corpus = plan.sample.corpus
    return {
        "preset": plan.preset.name,
        "backbone": plan.preset.encoder.backbone,
        "seed": plan.settings.seed,
        "corpus": {"key": corpus.key, "rows": len(corpus), "used": len(plan.sample)},
        **({"head": list(head_classes(plan.preset))} if plan.preset.train.keep_head else {}),
        "selection": {"sets": list(plan.selecting), **asdict(outcome)},
        **_verdict(plan.judging, *(only_cosines(plan.folder.cosines(time)) for time in ("before", "after"))),
    }


def measure(plan: TrainingPlan, time: Time) -> None:
    """Encode the judging pairs with the present model, unless an earlier call has kept their cosines."""
    if process_number() != 0 or not plan.judging:
        return
    try:
        kept = plan.folder.cosines(time)
    except UserError as error:  # it can be made again
        plan.console.print(f"{error.problem}; it is made again")
        kept = {}
    if {task: set(parts) for task, parts in kept.items()} != {task: set(parts) for task, parts in plan.judging.items()}:
        count = sum(len(part) for parts in plan.judging.values() for part in parts.values())
        plan.console.print(f"encoding {count:,} pairs that judge the run ({time})")
        with watch("encoding", plan.console):
            cosines = similarities(plan.model, plan.judging)
        plan.folder.write_cosines(time, plan.judging, cosines)


def _verdict(sets: Sets, before: Cosines, after: Cosines) -> dict[str, Any]:
    """Scores, comparison, verdict, advice."""
    if not sets:
        return {"verdict": NOT_JUDGED, "advice": WITHOUT_PAIRS}
    comparison = asdict(compare(main_pairs(sets, before), main_pairs(sets, after), seed=0))
    return {
        "verdict": comparison["verdict"],
        "advice": ADVICE[comparison["verdict"]],
        "comparison": comparison,
        "before": score(sets, before),
        "after": score(sets, after),
    }
