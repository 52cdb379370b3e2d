"""What a student keeps of its teacher and what it saves: tables, the verdict, and the page."""

from dataclasses import replace
from pathlib import Path

from isotrope.compression.result import PAIRS, PARTS, QUERIES, CompressionResult, TaskScores
from isotrope.evaluation.significance import Comparison
from isotrope.evaluation.verdict import Verdict, signed
from isotrope.report.comparison import SHORT_NAMES
from isotrope.report.switching import STAYS
from isotrope.report.tables import Table
from isotrope.training.folder import RunFolder
from isotrope.training.page import write_report

_JUDGES = {
    QUERIES: "your labelled queries",
    PARTS: "your own documents that were held out",
    PAIRS: "graded pairs of English",
}
HOW = (
    "Parts of texts: MRR@10 × 100 of finding the rest of a text by a part of it, on texts that "
    "were held out of training; nobody graded them. Pairs: Spearman × 100. Labelled queries: "
    "nDCG@10 × 100. Kept is the student's score over its teacher's. A test says what training "
    "changed and how far the student is from its teacher. It covers the choice of texts and pairs, "
    "not the training seed."
)
ONE_SIDE = (
    "The student reads the queries, and the first text of a pair; the teacher reads all else."
)
HOW_MEASURED = (
    "Speed is how many times as fast the student is: {texts} texts of at most 128 tokens, on this "
    "machine, with one thread of the processor. The models took turns. It is the median of five "
    "rounds, from {low:.1f} to {high:.1f}. "
    "Memory is the most that loading and encoding need beside Python and its libraries, each model "
    "in a process of its own."
)


def compression_tables(result: CompressionResult) -> list[Table]:
    """Points kept, task by task, and speed and size."""
    return [quality_table(result), cost_table(result)]


def quality_table(result: CompressionResult) -> Table:
    """A row a task: three scores, the share that is kept, what training changed, how far it is to
    the teacher.
    """
    columns = [
        "task",
        "teacher",
        "before training",
        "student",
        "kept",
        "by training (95 %)",
        "to the teacher (95 %)",
    ]
    rows = [_task_row(task) for task in result.tasks()]
    notes = [HOW, ONE_SIDE] if result.queries_only else [HOW]
    return Table("Points kept", columns, rows, notes=notes)


def _task_row(task: TaskScores) -> list[str]:
    teacher = task.to_teacher.before
    student = task.to_teacher.after
    scores = [teacher, task.to_start.before, student]
    return [
        SHORT_NAMES.get(task.name, task.name),
        *(f"{100 * score:.2f}" for score in scores),
        f"{100 * student / teacher:.0f} %" if teacher > 0 else "",
        _change(task.to_start),
        _change(task.to_teacher),
    ]


def _change(comparison: Comparison) -> str:
    return f"{signed(comparison.difference)} ({signed(comparison.low)} … {signed(comparison.high)})"


def cost_table(result: CompressionResult) -> Table:
    """Speed, weights and memory of teacher and student."""
    cost = result.cost
    speed = "speed with queries" if result.queries_only else "speed"
    rows = [
        [speed, "1.0", f"{cost.faster.median:.1f}"],
        ["weights, MB", *map(_megabytes, cost.weights)],
        ["memory, MB", *map(_megabytes, cost.memory)],
    ]
    note = HOW_MEASURED.format(texts=cost.texts, low=cost.faster.low, high=cost.faster.high)
    return Table("Speed and size", ["", "teacher", "student"], rows, notes=[note])


def _megabytes(size: int | None) -> str:
    return f"{size / 1e6:.1f}" if size else "not measured"


def kept_line(result: CompressionResult) -> str:
    """What is kept and what it costs, in one line; it says faster and smaller only if it is so."""
    cost = result.cost
    points = f"keeps {100 * result.kept:.0f} % of the points of {result.teacher}"
    faster = f"is {cost.faster.median:.1f} times as fast" if cost.is_faster else "is not faster"
    if result.queries_only:
        faster += " with queries"
    share = cost.weights_share
    smaller = f"has {100 * share:.0f} % of its weights" if share < 1 else "is not smaller"
    return f"{points}, {faster}, and {smaller}"


def compression_verdict(result: CompressionResult) -> Verdict:
    """Teacher against student, by the first kind of tasks."""
    kind, distances = next(iter(result.quality.items()))
    verdict = Verdict.of(
        distances.teacher,
        before=result.teacher,
        after="the student",
        judge=_JUDGES[kind],
        measure="points on average",
    )
    words = {"better": "gained", "worse": "lost"}
    word = words.get(distances.start.verdict, "changed nothing significant:")
    change = signed(distances.start.difference)
    gained = f"Training it {word} {change} points."
    return replace(verdict, advice=f"It {_advice(result, gained)}")


def student_evidence(result: CompressionResult) -> Table:
    """For the student's card: the points kept, and how they and the costs were measured."""
    quality, cost = compression_tables(result)
    return replace(quality, notes=[f"It {kept_line(result)}.", *quality.notes, *cost.notes])


def write_student_report(run: str | Path, output: str | Path | None = None) -> Path:
    """The page of a run, as `write_report` makes it; that of a student also shows what it keeps and
    saves.
    """
    record = RunFolder(run).result.get("compression")
    if not record:
        return write_report(run, output)

    result = CompressionResult.from_record(record)
    return write_report(
        run,
        output,
        title=f"Compress: {result.teacher}",
        verdict=compression_verdict(result),
        lead=[f"The student {_advice(result)}"],
        tables=compression_tables(result),
        switch=result.switch if _faults_of_teacher(result) else None,
    )


def _advice(result: CompressionResult, gained: str = "") -> str:
    """What the student keeps, when to use it, and what it ``gained``."""
    sentences = [f"{kept_line(result)}."]
    faults = " or ".join(_faults_of_teacher(result))
    if faults:
        sentences.append(f"Use it where {result.teacher} is {faults}.")
        if result.queries_only:
            sentences.append(STAYS)
    else:
        sentences.append(f"Keep {result.teacher}.")
    if gained:
        sentences.append(gained)
    return " ".join(sentences)


def _faults_of_teacher(result: CompressionResult) -> list[str]:
    """Why the student may replace its teacher."""
    faults = []
    if result.cost.is_faster:
        faults.append("too slow")
    if result.cost.weights_share < 1:
        faults.append("too large")
    return faults
