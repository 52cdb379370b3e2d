"""The columns of a study's table: their names, and where their numbers come from."""

from isotrope.evaluation.sets.public import PUBLIC_SETS
from isotrope.evaluation.suite import main_scores
from isotrope.report.comparison import SHORT_NAMES
from isotrope.store.files import Record
from isotrope.study.record import Scores

STS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
TRANSFER = ("MR", "CR", "SUBJ", "MPQA", "SST", "TREC", "MRPC")
RETRIEVAL = PUBLIC_SETS  # nDCG@10
SELF_MADE = "self-made"  # tasks made from documents, their mean: MRR@10
GEOMETRY = ("alignment", "uniformity", "mean cosine")
FALL = "uniformity change"  # from the first evaluation of the training to the last
FEATURE_DIVERSITY = "feature diversity"  # of the views, before whitening
DIVERSITY = "diversity"  # and after it
MEASURES = {"KCC": "kendall", "NDCG": "ndcg"}  # of the ranking suite
RANKING = tuple(f"{measure} {task}" for measure in MEASURES for task in (*STS, "Avg."))
SHAPE = (*GEOMETRY, FALL, FEATURE_DIVERSITY, DIVERSITY)  # of the space: numbers as they are
# of the training; memory is the most that its process has held, in MB of 10⁶ bytes
COST = ("minutes", "memory")
KNOWN = (
    *STS,
    "Avg.",
    *TRANSFER,
    "Transfer Avg.",
    *RETRIEVAL,
    "nDCG Avg.",
    SELF_MADE,
    *RANKING,
    *SHAPE,
    "dev",
    *COST,
)
LOWER_IS_BETTER = ("alignment", "uniformity", "mean cosine", FALL, *COST)
# Unless a study asks for them: dev pairs have selected the model, costs depend on the machine.
UNSHOWN = ("dev", FALL, *COST)


def column_of(task: str) -> str:
    """A judged task's column. The user's own pairs get another name if they are called like a known
    column.
    """
    if task in SHORT_NAMES:
        return SHORT_NAMES[task]
    return f"{task} pairs" if task in KNOWN and task not in STS else task


def sts_scores(result: Record) -> Scores:
    """Judged tasks (``before`` or ``after`` of a run) -> points. "Avg." is the mean of the tasks
    that were judged.
    """
    points: Scores = {}
    for task, score in main_scores("sts", result).items():
        points[column_of(task)] = 100 * score
    return _with_average(points, "Avg.") if points else {}


def suite_scores(suite: str, result: Record) -> Scores:
    """A suite's result -> points, or for geometry the measures as they are."""
    if suite == "geometry":
        measures = next(iter(result.values()))
        return {column: float(measures[column.replace(" ", "_")]) for column in GEOMETRY}
    if suite == "ranking":
        return _ranking_scores(result)
    scores = main_scores(suite, result)
    scores.pop("SST5", None)  # not one of the papers' seven
    points = {}
    for task, score in scores.items():
        column = "SST" if task == "SST2" else task
        points[column] = 100 * score
    average = "Transfer Avg." if suite == "transfer" else "nDCG Avg."
    return _with_average(points, average)


def _ranking_scores(result: Record) -> Scores:
    points: Scores = {}
    for name, measure in MEASURES.items():
        by_task = {
            f"{name} {SHORT_NAMES.get(task, task)}": 100 * scores[measure]
            for task, scores in result.items()
        }
        points |= _with_average(by_task, f"{name} Avg.")
    return points


def _with_average(points: Scores, name: str) -> Scores:
    average = sum(points.values()) / len(points)
    return points | {name: average}


def shown(column: str, value: float) -> str:
    """A number as the papers print it."""
    if column in SHAPE:
        return f"{value:.3f}"
    return f"{value:.1f}" if column in COST else f"{value:.2f}"
