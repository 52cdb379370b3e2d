"""What a student keeps of its teacher and what it saves: tables, the verdict, and the page."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from isotrope.evaluation.significance import Comparison
from isotrope.evaluation.verdict import Verdict
from isotrope.report.comparison import SHORT_NAMES
from isotrope.report.examples import examples_table
from isotrope.report.page import PageFigure, interval_bars
from isotrope.report.space import map_figure
from isotrope.report.switching import STAYS, Switch
from isotrope.report.tables import Table, signed
from isotrope.store.files import Record
from isotrope.training.folder import RunFolder
from isotrope.training.page import write_report

FASTER = 1.05  # a smaller ratio of speeds is noise
QUERIES, PARTS, PAIRS = "labelled queries", "parts of texts", "graded pairs"  # the kinds of tasks
_JUDGES = {
    QUERIES: "your labelled queries",
    PARTS: "your own documents that were held out",
    PAIRS: "graded pairs of English",
}
HOW = (
    "Parts of texts: MRR@10 × 100 of finding the rest of a text by a part of it, on texts that were held out of "
    "training; nobody graded them. Pairs: Spearman × 100. Labelled queries: nDCG@10 × 100. Kept is the student's score "
    "over its teacher's. A paired bootstrap tests what training changed and how far the student is from its teacher. "
    "It covers the choice of texts and pairs, not the training seed."
)
ONE_SIDE = (
    "The student reads the queries, and the first text of a pair; the teacher reads all else."
)
HOW_MEASURED = (
    "{texts} texts of at most 128 tokens, on this machine, with one thread of the processor. The models took turns. "
    "The ratio is the median of five rounds, from {low:.1f} to {high:.1f}. Memory is the most that loading and "
    "encoding need beside Python and its libraries, each model in a process of its own."
)


def compression_tables(record: Mapping[str, Any]) -> list[Table]:
    """Points kept, task by task, and speed and size, of what a run's ``result.json`` holds under
    "compression".
    """
    return [quality_table(record), cost_table(record)]


def quality_table(record: Mapping[str, Any]) -> Table:
    """A row a task: three scores, the share that is kept, what training changed, how far it is to
    the teacher.
    """
    rows = [
        [
            SHORT_NAMES.get(task, task),
            *(f"{100 * score:.2f}" for score in (far["before"], own["before"], far["after"])),
            f"{100 * far['after'] / far['before']:.0f} %" if far["before"] > 0 else "",
            *(
                f"{signed(of['difference'])} ({signed(of['low'])} … {signed(of['high'])})"
                for of in (own, far)
            ),
        ]
        for task, far, own in each_task(record)
    ]
    by, to = f"by {_made_by(record)} (95 %)", "to the teacher (95 %)"
    header = ["task", "teacher", "before training", "student", "kept", by, to]
    return Table(
        "Points kept", header, rows, notes=[HOW, ONE_SIDE] if of_queries(record) else [HOW]
    )


def cost_table(record: Mapping[str, Any]) -> Table:
    """Speed, weights and memory of teacher and student, and their ratios."""
    cost, texts = record["cost"], "queries" if of_queries(record) else "texts"
    large, small = cost["speed"]
    rows = [
        [
            f"{texts} a second",
            f"{large:.0f}",
            f"{small:.0f}",
            f"{cost['faster']['median']:.1f} times as fast",
        ]
    ]
    for name in ("weights", "memory"):
        big, little = cost[name]
        share = f"{100 * little / big:.0f} %" if big and little else ""
        shown = (f"{each / 1e6:.1f}" if each else "not measured" for each in (big, little))
        rows.append([f"{name}, MB", *shown, share])
    note = HOW_MEASURED.format(texts=cost["texts"], **cost["faster"])
    return Table("Speed and size", ["", "teacher", "student", "ratio"], rows, notes=[note])


def each_task(record: Mapping[str, Any]) -> Iterator[tuple[str, Record, Record]]:
    """Each task with how far the student is from its teacher, and from its own start."""
    for kind in record["quality"].values():
        for task, far in kind["teacher"]["per_task"].items():
            yield task, far, kind["start"]["per_task"][task]


def kept_line(record: Mapping[str, Any]) -> str:
    """What is kept and what it costs, in one line; it says faster and smaller only if it is so."""
    ratio, (big, little) = record["cost"]["faster"]["median"], record["cost"]["weights"]
    faster = f"is {ratio:.1f} times as fast" if ratio > FASTER else "is not faster"
    smaller = f"has {100 * little / big:.0f} % of its weights" if little < big else "is not smaller"
    faster += " with queries" if of_queries(record) else ""
    return f"keeps {100 * record['kept']:.0f} % of the points of {record['teacher']}, {faster}, and {smaller}"


def compression_verdict(record: Mapping[str, Any]) -> Verdict:
    """Teacher against student, on the texts that were held out if there are enough, else on graded
    pairs.
    """
    kind, found = next(iter(record["quality"].items()))
    verdict = Verdict.of(
        Comparison(**found["teacher"]),
        before=record["teacher"],
        after="the student",
        judge=_JUDGES[kind],
        measure="points on average",
    )
    own = found["start"]
    word = {"better": "gained", "worse": "lost"}.get(own["verdict"], "changed nothing significant:")
    gained = f"{_made_by(record).capitalize()} it {word} {signed(own['difference'])} points."
    return replace(verdict, advice=f"It {_told(record, gained)}")


def student_evidence(record: Mapping[str, Any]) -> Table:
    """For the student's card: the points kept, and how they and the costs were measured."""
    quality, cost = compression_tables(record)
    return replace(quality, notes=[f"It {kept_line(record)}.", *quality.notes, *cost.notes])


def write_student_report(run: str | Path, output: str | Path | None = None) -> Path:
    """The page of a run, as `write_report` makes it; that of a student also shows what it keeps and
    saves.
    """
    if not (found := RunFolder(run).result.get("compression")):
        return write_report(run, output)
    drawn = interval_bars(
        {
            SHORT_NAMES.get(task, task): (far["difference"], far["low"], far["high"])
            for task, far, _ in each_task(found)
        }
    )
    caption = "The student's points less its teacher's; the line is the 95 % interval."
    figures = [PageFigure("kept", "How far the student is from its teacher", drawn, caption)]
    tables, searched = compression_tables(found), found["searched"]
    if searched and searched["shown"]["told"]:
        tables.append(
            examples_table(searched["shown"], names=("with the teacher", "with the student"))
        )
    if searched and searched["map"]:
        figures.append(map_figure(searched["map"], ("teacher", "student")))
    return write_report(
        run,
        output,
        title=f"Compress: {found['teacher']}",
        verdict=compression_verdict(found),
        lead=[f"The student {_told(found)}"],
        tables=tables,
        figures=figures,
        switch=Switch.from_record(found) if _saved(found) else None,
    )


def _told(record: Mapping[str, Any], *more: str) -> str:
    """What the student keeps, when to use it, ``more``, and what `improve` made of it, if that was
    asked.
    """
    needs, stays = " or ".join(_saved(record)), [STAYS] if of_queries(record) else []
    advice = (
        [f"Use it where {record['teacher']} is {needs}.", *stays]
        if needs
        else [f"Keep {record['teacher']}."]
    )
    improved = []
    if found := record.get("improved"):
        verdict = Verdict.from_record(found["verdict"])
        improved = ["Then improve found nothing that is better than the trained student."]
        if verdict.word == "better":
            improved = [
                f"Then improve chose {found['choice']}: better than the trained student, {verdict.evidence}."
            ]
    return " ".join([f"{kept_line(record)}.", *advice, *more, *improved])


def _made_by(record: Mapping[str, Any]) -> str:
    """What made the student of what it was at first."""
    return "training and improving" if record.get("improved") else "training"


def of_queries(record: Mapping[str, Any]) -> bool:
    """Whether the student reads queries only."""
    return bool(record["side"] == "query")


def _saved(record: Mapping[str, Any]) -> list[str]:
    """What is wrong with a teacher that the student may replace."""
    ratio, (big, little) = record["cost"]["faster"]["median"], record["cost"]["weights"]
    return [*(["too slow"] if ratio > FASTER else []), *(["too large"] if little < big else [])]
