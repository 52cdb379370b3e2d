"""One door to every evaluation, and the numbers that papers compare."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from isotrope.errors import UserError, one_of
from isotrope.evaluation.classifier import CLASSIFIER_SETTINGS
from isotrope.evaluation.geometry import evaluate_geometry, pair_geometry
from isotrope.evaluation.ranking import RANKING_SETTINGS, evaluate_ranking, rank_sets
from isotrope.evaluation.retrieval import evaluate_domain, evaluate_retrieval
from isotrope.evaluation.sets.domain import Domain
from isotrope.evaluation.sets.domains import DOMAIN_TASKS, DOMAINS
from isotrope.evaluation.sets.labels import Labels, in_words, read_labels, texts_of
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.evaluation.sets.senteval import SPLITS, STS_TASKS
from isotrope.evaluation.sets.transfer import TRANSFER_TASKS
from isotrope.evaluation.significance import Comparison, compare, compare_tasks
from isotrope.evaluation.sts import evaluate_pairs, evaluate_sts
from isotrope.evaluation.transfer import evaluate_transfer
from isotrope.post.names import open_encoder
from isotrope.text.coverage import unknown_warning
from isotrope.types import Encoder, Vector

Result = Mapping[str, Any]  # of one task
TaskResults = Mapping[str, Mapping[str, Any]]  # task -> its result, as `run` gives it
ResultComparer = Callable[[TaskResults, TaskResults, int], Comparison]
Answer = Callable[[Encoder, list[str], str | Path | None, str], dict[str, Any]]  # (encoder, tasks, data, setting)


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of a task that tables show: its title there, where it stands in a result, what it is multiplied by."""

    title: str
    of: Callable[[Result], float]
    scale: float = 100.0
    lower: bool = False  # is better


@dataclass(frozen=True, slots=True)
class Suite:
    """What a suite can be asked, the function that answers, and how the answer is shown.

    `tasks` are those of each setting. `measures` begins with the one that papers compare. Their average is taken over
    the tasks in `averaged`, where all are there. `folders` of the data folder hold what it reads. `compare` tests one
    model's results against another's, case by case. `of_labels` answers for the user's own labels of the kind `takes`.
    """

    tasks: Mapping[str, tuple[str, ...]]
    evaluate: Answer
    measures: tuple[Measure, ...]
    averaged: tuple[str, ...]
    folders: tuple[str, ...]
    compare: ResultComparer | None = None
    takes: type[Pairs] | type[Domain] | None = None
    of_labels: Callable[[Encoder, Any], dict[str, Any]] = lambda encoder, labels: {}


def _spearman(result: Result) -> float:
    """Of "all" for STS12 … STS16, of the test split (or the one there is) for the others."""
    scores = result["spearman"]
    return float(next(scores[key] for key in ("all", "test", "dev") if key in scores))


def _named(title: str, key: str, scale: float = 100.0, lower: bool = False) -> Measure:
    """A number that stands in a result under `key`; NaN where the task has none."""
    return Measure(title, lambda result: float("nan") if result.get(key) is None else float(result[key]), scale, lower)


def _sts(encoder: Encoder, tasks: list[str], data: str | Path | None, setting: str) -> dict[str, Any]:
    return evaluate_sts(encoder, tasks, data, ("dev", "test") if setting == "test" else ("dev",))


def pair_cases(results: TaskResults) -> dict[str, tuple[Vector, Vector]]:
    """Task → gold scores and cosines (N,), (N,) of an "sts" result."""
    pairs = {task: result["per_pair"] for task, result in results.items()}
    return {task: (np.array(p["gold"]), np.array(p["cosine"])) for task, p in pairs.items()}


def cases_in_words(results: TaskResults) -> str:
    """What judges, for a reader: "1,379 pairs of STSBenchmark"."""
    plural = {"per_pair": "pairs", "per_sample": "samples", "per_list": "lists", "per_query": "queries"}
    kind = next(key for result in results.values() for key in result if key in plural)
    count = sum(len(next(iter(result[kind].values()))) for result in results.values())
    return f"{count:,} {plural[kind]} of {', '.join(results) if len(results) < 4 else f'{len(results)} tasks'}"


def compare_pairs(before: TaskResults, after: TaskResults, seed: int = 0) -> Comparison:
    """Paired bootstrap over sentence pairs of Spearman's correlation, averaged over the tasks."""
    return compare(pair_cases(before), pair_cases(after), seed=seed)


def compare_cases(kind: str, measure: str) -> ResultComparer:
    """Paired bootstrap of the mean of one number a case, averaged over the tasks: `result[kind][measure]`."""

    def judge(before: TaskResults, after: TaskResults, seed: int = 0) -> Comparison:
        old, new = (
            {task: np.array(result[kind][measure], dtype=np.float64) for task, result in results.items()}
            for results in (before, after)
        )
        return compare_tasks(old, new, seed=seed)

    return judge


_STS_DATA = ("senteval", "downstream", "sts-raw", "stsb-raw", "sick-raw")
SUITES: Mapping[str, Suite] = {
    "sts": Suite(
        tasks={"test": STS_TASKS, "dev": tuple(SPLITS)},
        evaluate=_sts,
        measures=(Measure("Spearman × 100", _spearman),),
        averaged=STS_TASKS,
        folders=_STS_DATA,
        compare=compare_pairs,
        takes=Pairs,
        of_labels=lambda encoder, pairs: evaluate_pairs(encoder, pairs)[pairs.name],
    ),
    "transfer": Suite(
        tasks=dict.fromkeys(CLASSIFIER_SETTINGS, TRANSFER_TASKS),
        evaluate=evaluate_transfer,
        measures=(_named("accuracy", "accuracy"),),
        averaged=tuple(task for task in TRANSFER_TASKS if task != "SST5"),  # the papers' seven
        folders=("senteval", "downstream"),
        compare=compare_cases("per_sample", "correct"),
    ),
    "ranking": Suite(
        tasks=dict.fromkeys(RANKING_SETTINGS, STS_TASKS),
        evaluate=evaluate_ranking,
        measures=(_named("KCC × 100", "kendall"), _named("NDCG × 100", "ndcg")),
        averaged=STS_TASKS,
        folders=_STS_DATA,
        compare=compare_cases("per_list", "kendall"),
        takes=Pairs,
        of_labels=lambda encoder, pairs: rank_sets(encoder, {pairs.name: [pairs]})[pairs.name],
    ),
    "geometry": Suite(
        tasks={"test": ("STSBenchmark",)},
        evaluate=lambda encoder, _tasks, data, _setting: evaluate_geometry(encoder, data),
        measures=(
            _named("alignment", "alignment", 1, lower=True),
            _named("uniformity", "uniformity", 1, lower=True),
            _named("mean cosine", "mean_cosine", 1, lower=True),
            _named("IsoScore", "iso_score", 1),
            _named("effective rank", "effective_rank", 1),
        ),
        averaged=(),
        folders=_STS_DATA,
        takes=Pairs,
        of_labels=pair_geometry,
    ),
    "retrieval": Suite(
        tasks=DOMAIN_TASKS,
        evaluate=evaluate_retrieval,
        measures=(
            _named("nDCG@10", "ndcg@10"),
            _named("MRR@10", "mrr@10"),
            _named("recall@10", "recall@10"),
            _named("recall@100", "recall@100"),
            _named("V-measure", "v_measure"),
        ),
        averaged=DOMAINS,
        folders=("domain",),
        compare=compare_cases("per_query", "ndcg@10"),
        takes=Domain,
        of_labels=evaluate_domain,
    ),
}


def run(
    encoder: Encoder | str | Path,
    suite: str,
    data: Any,
    tasks: Sequence[str] | None = None,
    setting: str = "test",
    columns: str | Sequence[str] | None = None,
) -> dict[str, Any]:
    """Evaluate a model on a suite: task -> result, in fractions, ready for JSON.

    The functions that describe the results, in `isotrope.evaluation`:

    | suite | result of a task | settings |
    |---|---|---|
    | sts | `sts.score` | test; dev: the dev splits alone |
    | transfer | `transfer.evaluate_transfer` | test; fast: SentEval's for prototypes |
    | ranking | `ranking.rank_sets` | test; all: every split |
    | geometry | `geometry.pair_geometry` | test |
    | retrieval | `retrieval.evaluate_domain` | test; dev |

    Keys that begin with "per_" hold the single cases, which a `Suite`'s ``compare`` takes.

    Args:
        encoder: a name or folder, or anything with ``encode(list[str])`` that gives one vector a sentence, such as a
            loaded SentenceTransformer.
        suite: one of the above.
        data: the folder that holds ``senteval/`` and ``domain/``; None: the one that ISOTROPE_DATA names. Or labels of
            your own, as `isotrope.evaluation.sets.labels.read_labels` takes them; the one task is named after them.
        tasks: some of the suite's tasks; None: all.
        setting: one of the suite's settings.
        columns: the columns of your own labels, in a table: "question,answer".

    Raises:
        UserError: an unknown suite, task or setting; bad data; an encoder that does not give (n, D) finite numbers.
    """
    own = read_labels(data, columns) if _are_labels(data) else None
    if own is not None and tasks:
        raise UserError(f"tasks {tasks} beside your own labels", "leave them out")
    chosen = checked_tasks(suite, tasks, setting)
    if own is not None:
        check_takes([suite], own)
    opened = open_encoder(str(encoder)) if isinstance(encoder, str | Path) else encoder
    modes = [(module, module.training) for module in opened.modules()] if isinstance(opened, torch.nn.Module) else []
    try:
        if own is not None:
            if isinstance(opened, SentenceTransformer) and (warning := unknown_warning(opened, texts_of(own))):
                warnings.warn(warning, stacklevel=2)
            return {own.name: SUITES[suite].of_labels(opened, own)}
        return SUITES[suite].evaluate(opened, chosen, data, setting)
    finally:
        for module, mode in modes:
            module.training = mode


def check_takes(suites: Iterable[str], labels: Labels) -> None:
    """UserError where no suite can use the user's own labels."""
    able = [name for name, suite in SUITES.items() if isinstance(labels, suite.takes or ())]
    if not set(able) & set(suites):
        raise UserError(f"{', '.join(suites)} cannot use {in_words(labels)}", f"choose {' or '.join(able)}")


def _are_labels(data: Any) -> bool:
    """Whether this is no data folder: a file, a folder with queries, or an object."""
    if data is None or not isinstance(data, str | Path):
        return data is not None
    return Path(data).is_file() or any((Path(data) / f"queries{end}").is_file() for end in (".tsv", ".jsonl"))


def checked_tasks(suite: str, tasks: Sequence[str] | str | None = None, setting: str = "test") -> list[str]:
    """The tasks of a suite that are asked for, all where ``tasks`` is None. Checked before a model is loaded."""
    if suite not in SUITES:
        raise UserError(f"unknown suite {suite!r}", one_of(suite, SUITES))
    known = SUITES[suite].tasks
    if setting not in known:
        raise UserError(f"suite {suite} has no setting {setting!r}", one_of(setting, known))
    chosen = [tasks] if isinstance(tasks, str) else list(known[setting] if tasks is None else tasks)
    for task in chosen:
        if task not in known[setting]:
            where = "" if setting == "test" else f" in the setting {setting}"
            remedy = one_of(task, known[setting])
            raise UserError(f"suite {suite} has no task {task!r}{where}", remedy)
    return chosen


def main_scores(suite: str, result: Mapping[str, Result]) -> dict[str, float]:
    """The one number of each task that papers compare, as a fraction; of "geometry" alignment, lower is better."""
    return {task: SUITES[suite].measures[0].of(of_task) for task, of_task in result.items()}


@dataclass(frozen=True, slots=True)
class Average:
    """Mean Spearman over the seven STS tasks, as fractions: `exact`, and `printed` as in the papers' tables."""

    exact: float
    printed: float


def suite_average(result: Mapping[str, Any]) -> Average:
    """The papers' Avg. of an "sts" result: "all" for STS12 … STS16, "test" for STSBenchmark and SICKRelatedness.

    `printed` is the mean of the seven printed cells (percent with two decimals), rounded again, as SimCSE's evaluation
    prints it. It can differ from the rounded exact mean by 0.01 points.

    Raises UserError where one of the seven is missing: an average over fewer is another number.
    """
    missing = [task for task in STS_TASKS if task not in result]
    if missing:
        raise UserError(f"no average without {', '.join(missing)}", "evaluate all seven STS tasks")
    scores = [_spearman(result[task]) for task in STS_TASKS]
    cells = [round(100 * score, 2) for score in scores]
    return Average(exact=sum(scores) / len(scores), printed=round(round(sum(cells) / len(cells), 2) / 100, 4))
