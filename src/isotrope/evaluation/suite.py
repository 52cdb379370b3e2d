"""One door to every evaluation, and the numbers that papers compare."""

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.evaluation import BaseEvaluator
from torch import nn

from isotrope.errors import UserError, check_known
from isotrope.evaluation.geometry import pair_geometry
from isotrope.evaluation.ranking import RANKING_SETTINGS, rank_sets
from isotrope.evaluation.results import Results
from isotrope.evaluation.retrieval import evaluate_retrieval
from isotrope.evaluation.sets.columns import ColumnChoice
from isotrope.evaluation.sets.files import DataFolder
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.judged_folder import is_judged_folder
from isotrope.evaluation.sets.labels import Labels, LabelsLike, in_words, read_labels, texts_of
from isotrope.evaluation.sets.public import PUBLIC_SETS, RETRIEVAL_TASKS, load_retrieval_set
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.evaluation.sets.senteval import (
    SPLITS,
    STS_TASKS,
    TRANSFER_TASKS,
    load_sts,
    load_transfer,
)
from isotrope.evaluation.significance import Cases
from isotrope.evaluation.sts import evaluate_sets
from isotrope.evaluation.transfer import CLASSIFIER_SETTINGS, evaluate_transfer
from isotrope.post.names import open_encoder
from isotrope.text.coverage import unknown_warning
from isotrope.types import Encoder

Result = Mapping[str, Any]  # of one task
TaskResults = Mapping[str, Result]  # task -> its result, as `run` gives it
TaskData = Mapping[str, Any]  # task -> what it asks, as a suite reads it


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of a task that tables show: its title there, its key in a result, what it is
    multiplied by.
    """

    title: str
    key: str
    scale: float = 100.0
    lower: bool = False  # is better

    def of(self, result: Result) -> float:
        """The number in a result; NaN if the task does not have it.

        Of several numbers it is "all" for STS12 … STS16, else the test split, or the only one.
        """
        value = result.get(self.key)
        if isinstance(value, Mapping):
            value = next(value[name] for name in ("all", "test", "dev") if name in value)
        return float("nan") if value is None else float(value)


class CaseKind(NamedTuple):
    """The single cases of a result."""

    plural: str  # "pairs"
    key: str  # of the result that holds them
    columns: Sequence[str]  # of these cases: one number, or gold score and cosine


@dataclass(frozen=True, slots=True)
class Suite:
    """What a suite can be asked, how it is read and judged, and how the answer is shown.

    `read` takes the data folder, a task and a setting; `judge` an encoder, what was read of each
    task, and the setting.
    """

    tasks: Mapping[str, tuple[str, ...]]  # of each setting
    read: Callable[[DataFolder, str, str], Any]
    judge: Callable[[Encoder, TaskData, str], Results]
    measures: tuple[Measure, ...]  # the first is the one that papers compare
    averaged: tuple[str, ...] = ()  # their average is taken over these tasks, if all are there
    # of the data folder, that hold what is read
    folders: tuple[str, ...] = ("senteval", "downstream")
    cases: CaseKind | None = None  # that a paired test compares
    # labels of the user's own that can be judged too
    takes: type[GradedPairs] | type[RetrievalSet] | None = None


def _judge_geometry(encoder: Encoder, sets: TaskData, _: str) -> Results:
    return {task: pair_geometry(encoder, *splits.values()) for task, splits in sets.items()}


def _judge_retrieval(encoder: Encoder, sets: TaskData, _: str) -> Results:
    return {task: evaluate_retrieval(encoder, searches) for task, searches in sets.items()}


STS_SPLITS = {"test": ("dev", "test"), "dev": ("dev",)}  # of each setting, if a task has them
SUITES: Mapping[str, Suite] = {
    "sts": Suite(
        tasks={"test": STS_TASKS, "dev": tuple(SPLITS)},
        read=lambda data, task, setting: load_sts(data, task, STS_SPLITS[setting]),
        judge=lambda encoder, sets, _: evaluate_sets(encoder, sets),
        measures=(Measure("Spearman × 100", "spearman"),),
        averaged=STS_TASKS,
        cases=CaseKind("pairs", "per_pair", ("gold", "cosine")),
        takes=GradedPairs,
    ),
    "transfer": Suite(
        tasks=dict.fromkeys(CLASSIFIER_SETTINGS, TRANSFER_TASKS),
        read=lambda data, task, _: load_transfer(data, task),
        judge=evaluate_transfer,
        measures=(Measure("accuracy", "accuracy"),),
        averaged=tuple(task for task in TRANSFER_TASKS if task != "SST5"),  # the papers' seven
        cases=CaseKind("samples", "per_sample", ("correct",)),
    ),
    "ranking": Suite(
        tasks=dict.fromkeys(RANKING_SETTINGS, STS_TASKS),
        read=lambda data, task, setting: load_sts(data, task, RANKING_SETTINGS[setting]),
        judge=lambda encoder, sets, _: rank_sets(
            encoder, {task: subsets.values() for task, subsets in sets.items()}
        ),
        measures=(Measure("KCC × 100", "kendall"), Measure("NDCG × 100", "ndcg")),
        averaged=STS_TASKS,
        cases=CaseKind("lists", "per_list", ("kendall",)),
        takes=GradedPairs,
    ),
    "geometry": Suite(
        tasks={"test": ("STSBenchmark",)},  # as the papers
        read=lambda data, task, _: load_sts(data, task, ["dev"]),
        judge=_judge_geometry,
        measures=(
            Measure("alignment", "alignment", 1, lower=True),
            Measure("uniformity", "uniformity", 1, lower=True),
            Measure("mean cosine", "mean_cosine", 1, lower=True),
            Measure("IsoScore", "iso_score", 1),
            Measure("effective rank", "effective_rank", 1),
        ),
        takes=GradedPairs,
    ),
    "retrieval": Suite(
        tasks=RETRIEVAL_TASKS,
        read=load_retrieval_set,
        judge=_judge_retrieval,
        measures=(
            Measure("nDCG@10", "ndcg@10"),
            Measure("MRR@10", "mrr@10"),
            Measure("recall@10", "recall@10"),
            Measure("recall@100", "recall@100"),
            Measure("V-measure", "v_measure"),
        ),
        averaged=PUBLIC_SETS,
        folders=("domain",),
        cases=CaseKind("queries", "per_query", ("ndcg@10",)),
        takes=RetrievalSet,
    ),
}


def cases_of(suite: str, results: TaskResults) -> dict[str, Cases]:
    """Task → its cases in a suite's results, as `isotrope.evaluation.significance.compare` takes
    them.
    """
    kind = SUITES[suite].cases
    if kind is None:
        return {}

    cases: dict[str, Cases] = {}
    for task, result in results.items():
        columns = [np.array(result[kind.key][column], float) for column in kind.columns]
        cases[task] = (columns[0], columns[1]) if len(columns) == 2 else columns[0]
    return cases


def cases_in_words(suite: str, results: TaskResults) -> str:
    """What judges, for a reader: "1,379 pairs of STSBenchmark"."""
    kind = SUITES[suite].cases
    if kind is None:
        return ""
    count = 0
    for result in results.values():
        columns = result[kind.key]
        count += len(columns[kind.columns[0]])
    tasks = f"{len(results)} tasks"
    if len(results) < 4:
        tasks = ", ".join(results)
    return f"{count:,} {kind.plural} of {tasks}"


def run(
    encoder: Encoder | str | Path,
    suite: str,
    data: "LabelsLike | None",
    tasks: Sequence[str] | None = None,
    setting: str = "test",
    columns: ColumnChoice | None = None,
) -> dict[str, Any]:
    """Evaluate a model on a suite: task -> result, in fractions, ready for JSON.

    In `isotrope.evaluation`, these describe a task's result: `sts.score`,
    `transfer.evaluate_transfer`, `ranking.rank_sets`, `geometry.pair_geometry` and
    `retrieval.evaluate_retrieval`. Keys that begin with "per_" hold the single cases, which
    `suite.cases_of` collects. All data is read before anything is encoded.

    Args:
        encoder: a name or folder, or anything with ``encode(list[str])`` that gives one vector a
            sentence, such as a loaded SentenceTransformer.
        suite: sts, transfer, ranking, geometry or retrieval.
        data: the folder that holds ``senteval/`` and ``domain/``; None: the one that ISOTROPE_DATA
            names. Or labels of your own, as `isotrope.evaluation.sets.labels.read_labels` takes
            them; the one task is named after them.
        tasks: some of the suite's tasks; None: all.
        setting: test; dev (sts, retrieval); fast (transfer: SentEval's for prototypes); all
            (ranking: every split).
        columns: the columns of your own labels, in a table: "question,answer".

    Raises:
        UserError: an unknown suite, task or setting; bad data; an encoder that does not give (n, D)
            finite numbers.
    """
    chosen = checked_tasks(suite, tasks, setting)
    labels = read_labels(data, columns) if _are_labels(data) else None
    if labels is not None:
        check_takes([suite], labels, tasks)
    opened = open_encoder(str(encoder)) if isinstance(encoder, str | Path) else encoder

    task_data: dict[str, Any] = {}
    if isinstance(labels, GradedPairs):
        task_data[labels.name] = {"test": labels}
    elif labels is not None:
        task_data[labels.name] = labels
    else:
        for task in chosen:
            task_data[task] = SUITES[suite].read(data, task, setting)  # type: ignore[arg-type]

    if isinstance(opened, SentenceTransformer) and labels is not None:
        warning = unknown_warning(opened, texts_of(labels))
        if warning:
            warnings.warn(warning, stacklevel=2)
    with _modes_restored(opened):
        results = SUITES[suite].judge(opened, task_data, setting)
    if labels is not None:
        results[labels.name]["read_as"] = labels.read_as
    return results


@contextmanager
def _modes_restored(encoder: Encoder) -> Iterator[None]:
    """Each module is in training or not as it was before, also in a model that is half in
    training.
    """
    modules = encoder.modules() if isinstance(encoder, nn.Module) else ()
    modes = {module: module.training for module in modules}
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def check_takes(suites: Collection[str], labels: Labels, tasks: object = None) -> None:
    """Check that some of the suites can use the user's own labels, and that no tasks are named,
    which labels do not have.

    Raises UserError otherwise.
    """
    if tasks:
        raise UserError(
            f"tasks {tasks} beside your own labels", "leave them out", code="tasks-of-own-labels"
        )
    able = [name for name in SUITES if takes_labels(name, labels)]
    if set(able).isdisjoint(suites):
        raise UserError(
            f"{', '.join(suites)} cannot use {in_words(labels)}",
            f"choose {' or '.join(able)}",
            code="unusable-labels",
        )


def takes_labels(suite: str, labels: Labels) -> bool:
    """Whether a suite can judge by these labels of the user's own."""
    labels_type = SUITES[suite].takes
    return labels_type is not None and isinstance(labels, labels_type)


def _are_labels(data: object) -> bool:
    """Whether this is not a data folder, but a file, a folder with queries, or an object."""
    if not isinstance(data, str | Path):
        return data is not None
    return Path(data).is_file() or is_judged_folder(Path(data))


def checked_tasks(
    suite: str, tasks: Sequence[str] | str | None = None, setting: str = "test"
) -> list[str]:
    """The tasks of a suite that are asked for; None asks for all. Checked before a model is loaded.

    Raises UserError for an unknown suite, setting or task.
    """
    check_known("suite", suite, SUITES)
    check_known(f"suite {suite}: the setting", setting, SUITES[suite].tasks)
    all_tasks = SUITES[suite].tasks[setting]
    if tasks is None:
        return list(all_tasks)

    chosen = [tasks] if isinstance(tasks, str) else list(tasks)
    for task in chosen:
        check_known(f"suite {suite}, setting {setting}: the task", task, all_tasks)
    return chosen


def main_scores(suite: str, result: TaskResults) -> dict[str, float]:
    """The one number of each task that papers compare, as a fraction; of "geometry" alignment,
    lower is better.
    """
    measure = SUITES[suite].measures[0]
    return {task: measure.of(task_result) for task, task_result in result.items()}


class SuiteEvaluator(BaseEvaluator):
    """A suite as a sentence-transformers evaluator: one metric a task, and their mean under
    `SUITE_score`, fractions.

    Give it to a trainer as `evaluator=`; `metric_for_best_model` is then "eval_" +
    `primary_metric`. The arguments are those of `isotrope.evaluate`, which also raises the same
    errors. The default is STS on the dev splits of STS-B and SICK-R: a model is not selected on
    what it is reported on.
    """

    def __init__(
        self,
        suite: str = "sts",
        data: "LabelsLike | None" = None,
        tasks: Sequence[str] | None = None,
        setting: str = "dev",
        columns: ColumnChoice | None = None,
    ) -> None:
        super().__init__()
        self.suite = suite
        self.setting = setting
        self.tasks = tasks
        # Labels are read once, and not at each evaluation.
        self.data = read_labels(data, columns) if _are_labels(data) else data
        checked_tasks(suite, tasks, setting)
        self.primary_metric = f"{suite}_score"

    def __call__(self, model: SentenceTransformer, *_: Any, **__: Any) -> dict[str, float]:
        """Metrics named `SUITE_TASK` and `SUITE_score`; raises UserError as `isotrope.evaluate`
        does.
        """
        results = run(model, self.suite, self.data, self.tasks, self.setting)
        scores = main_scores(self.suite, results)
        metrics = {}
        for task, score in scores.items():
            metrics[f"{self.suite}_{task}"] = score
        metrics[self.primary_metric] = sum(scores.values()) / len(scores)
        return metrics
