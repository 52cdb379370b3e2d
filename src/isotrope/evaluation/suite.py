"""One door to every evaluation, and the one number that papers compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isotrope.data.senteval import SPLITS, STS_TASKS
from isotrope.errors import UserError
from isotrope.evaluation.embed import Encoder
from isotrope.evaluation.geometry import evaluate_geometry
from isotrope.evaluation.ranking import SETTINGS, evaluate_ranking
from isotrope.evaluation.sts import evaluate_sts


@dataclass(frozen=True, slots=True)
class Suite:
    """What a suite can be asked, and the function (encoder, tasks, data, setting) that answers."""

    tasks: tuple[str, ...]
    settings: tuple[str, ...]
    evaluate: Callable[[Encoder, list[str], str | Path | None, str], dict[str, Any]]


SUITES: Mapping[str, Suite] = {
    "sts": Suite(STS_TASKS, ("test",), lambda encoder, tasks, data, _: evaluate_sts(encoder, tasks, data)),
    "ranking": Suite(STS_TASKS, tuple(SETTINGS), evaluate_ranking),
    "geometry": Suite(("STSBenchmark",), ("test",), lambda encoder, _tasks, data, _: evaluate_geometry(encoder, data)),
}


def run(
    encoder: Encoder,
    suite: str,
    data: str | Path | None,
    tasks: Sequence[str] | None = None,
    setting: str = "test",
) -> dict[str, Any]:
    """Evaluate anything with `encode(list[str])`; a result a task, in fractions.

    `data` is the folder that holds `senteval/` (None: ISOTROPE_DATA); `tasks` some of the suite's tasks (None: all).
    "sts" gives what `isotrope.evaluation.sts.score` describes, "geometry" the measures of `evaluate_geometry`.

    Raises UserError for an unknown suite, task or setting, bad data, or an encoder that does not give (n, D) numbers.
    """
    chosen = check(suite, tasks, setting)
    return SUITES[suite].evaluate(encoder, chosen, data, setting)


def check(suite: str, tasks: Sequence[str] | str | None = None, setting: str = "test") -> list[str]:
    """The tasks of a suite that are meant; before a model is loaded.

    Raises UserError for an unknown suite, task or setting.
    """
    if suite not in SUITES:
        raise UserError(f"unknown suite {suite!r}", f"choose from {', '.join(SUITES)}")
    known = SUITES[suite]
    if setting not in known.settings:
        raise UserError(f"suite {suite} has no setting {setting!r}", f"choose from {', '.join(known.settings)}")
    chosen = [tasks] if isinstance(tasks, str) else list(known.tasks if tasks is None else tasks)
    for task in chosen:
        if task not in known.tasks:
            raise UserError(f"suite {suite} has no task {task!r}", f"choose from {', '.join(known.tasks)}")
    if not chosen:
        raise UserError("no task chosen", f"choose from {', '.join(known.tasks)}")
    return chosen


@dataclass(frozen=True, slots=True)
class Average:
    """Mean Spearman over the seven STS tasks, as fractions: `exact`, and `printed` as in the papers' tables."""

    exact: float
    printed: float


def average(result: Mapping[str, Any]) -> Average:
    """The papers' Avg. of an "sts" result: "all" for STS12 … STS16, "test" for STSBenchmark and SICKRelatedness.

    `printed` is the mean of the seven printed cells (percent with two decimals) and rounded again, as SimCSE's
    evaluation prints it; it can differ from the rounded exact mean by 0.01 points.

    Raises UserError where one of the seven is missing: an average over fewer is another number.
    """
    missing = [task for task in STS_TASKS if task not in result]
    if missing:
        raise UserError(f"no average without {', '.join(missing)}", "evaluate all seven STS tasks")
    scores = [float(result[task]["spearman"]["test" if task in SPLITS else "all"]) for task in STS_TASKS]
    cells = [round(100 * score, 2) for score in scores]
    return Average(exact=sum(scores) / len(scores), printed=round(round(sum(cells) / len(cells), 2) / 100, 4))
