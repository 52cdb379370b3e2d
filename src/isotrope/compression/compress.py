"""A teacher and text in; a small model that follows the teacher out, with what it keeps and what it
saves.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from sentence_transformers import SentenceTransformer

from isotrope.compression.cost import measure_costs
from isotrope.compression.held_out import hold_out
from isotrope.compression.page import (
    compression_tables,
    compression_verdict,
    student_evidence,
    write_student_report,
)
from isotrope.compression.quality import ByModel, Judges, compare_quality
from isotrope.compression.result import CompressionResult
from isotrope.compression.student import Student, plan_student, query_overrides
from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.encoder import load
from isotrope.encoder.checksum import GivenModel, located
from isotrope.encoder.locate import find_model, public_name
from isotrope.encoder.prompts import used_prompt, with_query_route
from isotrope.errors import UserError, check_known
from isotrope.evaluation.sets.labels import Labels
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.evaluation.sets.similarity import similarity_pairs
from isotrope.preset.preset import Preset, read_preset
from isotrope.report.card import Card, save_card
from isotrope.report.outcome import framed
from isotrope.report.saving import save_model
from isotrope.report.switching import Switch
from isotrope.report.tables import Table
from isotrope.text import TextLike, read_text
from isotrope.text.pseudo_queries import pseudo_queries
from isotrope.training.folder import RunFolder
from isotrope.training.pairs import evaluation_pairs, given_labels
from isotrope.training.prepare import untrained
from isotrope.training.processes import refuse_several
from isotrope.training.train import Run, train

if TYPE_CHECKING:
    import pandas as pd

PRESET = "distil"
BOTH, QUERY = SIDES = ("both", "query")  # what the student reads
TIMED = 64  # texts that are encoded to measure speed and memory


class Compression(Run):
    """A student: a finished training, and how it compares with its teacher."""

    @property
    def result(self) -> CompressionResult:
        """What was measured."""
        return CompressionResult.from_record(self.record["compression"])

    @property
    def kept(self) -> float:
        """The student's points over its teacher's."""
        return self.result.kept

    @property
    def table(self) -> "pd.DataFrame":
        """Task → teacher, start, student, as fractions."""
        rows = {}
        for task in self.result.tasks():
            rows[task.name] = {
                "teacher": task.to_teacher.before,
                "start": task.to_start.before,
                "student": task.to_teacher.after,
            }
        return framed(rows)

    def tables(self) -> list[Table]:
        """Points kept, task by task, and speed and size, to be shown."""
        return compression_tables(self.result)

    def report(self, file: str | Path) -> Path:
        """Write the page of the student, an .html file."""
        return write_student_report(self.folder, file)


def compress(
    model: GivenModel,
    documents: TextLike,
    *,
    student: GivenModel = "layers:3",
    side: str = BOTH,
    output: str | Path | None = None,
    seed: int = 0,
    preset: str | Path = PRESET,
    max_texts: int | None = None,
    dev: str | Sequence[str] | None = None,
    labels: Any = None,
    columns: str | Sequence[str] | None = None,
    data: str | Path | None = None,
    overrides: Iterable[str] = (),
    text_column: str | None = None,
    title_column: str | None = None,
    split: str | None = None,
    restart: bool = False,
    console: Console | None = None,
) -> Compression:
    """Train a small model to give the similarities that a large one gives, on text without labels.

    The run is one of `isotrope.train` with the preset ``distil``. Afterwards the student is
    compared with its teacher and with itself before training: points kept, speed, weights, memory.
    The verdict compares it with its teacher.

    Args:
        model: the large model, the teacher: a loaded one, which is left as it was, or what
            `isotrope.load` takes.
        documents: text of any kind: see `isotrope.text.read_text`. A fifth of it, 2,000 texts
            at most, is held out, and judges.
        student: ``tiny`` (isotrope/tiny), ``layers:3`` (layers of the teacher, spread evenly;
            ``layers:3:first`` and ``layers:3:last`` take others), ``static`` (one vector a token,
            for `StaticEmbedding`), or any model.
        side: ``query``: the student reads queries only, and the result is one model with two
            routes, because its ``encode_document`` is the teacher's to the last bit. A model of the
            teacher's width may be such a student. With two layers of a BERT, that keeps 92.5 % of
            the quality on BEIR (Wang and Lyu, 2023, https://arxiv.org/abs/2306.11550). ``both``: it
            reads all texts.
        output: a folder for the student and the work; None: a temporary one, which the result
            keeps.
        seed: of all random numbers.
        preset: a method with a teacher.
        max_texts: train on a random sample of this size; None takes all that is not held out.
        dev: what chooses the checkpoint: see `isotrope.train`.
        labels: labelled texts that judge too, as `isotrope.train` takes them.
        columns: of the labels, in a table.
        data: the folder that holds ``senteval/``; None takes ISOTROPE_DATA.
        overrides: ``key=value`` over the preset's keys.
        text_column: of the texts, in tables.
        title_column: of the documents' titles, in tables.
        split: ``sentences`` trains on the sentences of the texts.
        restart: begin anew; otherwise the same call goes on where it stopped.
        console: where to report; None reports to the terminal.

    Raises:
        UserError: a mistake of the user's; before long work if it can be found then.
        Stopped: Ctrl-C; the run can be resumed.
    """
    console = console or plain_console()
    refuse_several("compress")
    check_known("side =", side, SIDES)
    queries_only = side == QUERY
    teacher = located(model)
    planned = _plan_student(student, teacher, queries_only)
    source = read_text(documents, text_column=text_column, title_column=title_column, split=split)
    query_keys = query_overrides(teacher) if queries_only else []
    keys = [*planned.overrides, *query_keys, *overrides]
    method = read_preset(preset, keys)
    judging_labels = _judging_labels(labels, columns, queries_only)

    with watch("reading the texts", console):
        held = hold_out(source, method.pairs is not None, max_texts, seed)
    with watch("training", console):
        run = train(
            source,
            preset=preset,
            model=planned.backbone,
            teachers={_teacher_name(method): [teacher]},
            labels=judging_labels,
            dev=dev,
            output=output,
            data=data,
            seed=seed,
            overrides=keys,
            restart=restart,
            console=plain_console(quiet=True),
            held_out=held.held_out,
            max_texts=held.max_texts,
        )
    if "compression" in run.record:
        return Compression(run.job, run.record)

    graded, _ = evaluation_pairs(
        dev, method.train.select, judging_labels, data or os.environ.get("ISOTROPE_DATA")
    )
    labelled = judging_labels if isinstance(judging_labels, RetrievalSet) else None
    judges = Judges(held.judging, graded, labelled, queries_only)
    with run.job.held(), watch("judging", console):
        return _judge(run, teacher, planned, judges)


def _judge(run: Run, teacher: str, student: Student, judges: Judges) -> Compression:
    """Compare the trained student with its teacher, and finish the run."""
    folder = RunFolder(run.folder)
    models = ByModel(
        load(teacher, frozen=True),
        untrained(folder.preset.encoder),
        load(folder.model, frozen=True),
    )
    quality = compare_quality(models, judges)
    texts = _timed_texts(judges)
    cost = measure_costs(models.teacher, models.student, [teacher, str(folder.model)], texts)

    queries_only = judges.queries_only
    new_model = _join(teacher, folder.model) if queries_only else models.student
    result = CompressionResult(
        teacher=public_name(teacher),
        student=public_name(student.name),
        side=QUERY if queries_only else BOTH,
        quality=quality,
        cost=cost,
        switch=Switch.of(new_model, documents_stay=queries_only),
    )
    verdict = compression_verdict(result)
    card = Card.of(folder.model).judged(verdict, student_evidence(result))
    if queries_only:
        save_model(new_model, folder.model, card.describing(new_model, documents_stay=True))
    else:
        save_card(folder.model, card)
    record = {**run.record, "verdict": verdict.record(), "compression": result.record()}
    return Compression(run.job, run.job.finish(record))


def _plan_student(student: GivenModel, teacher: str, queries_only: bool) -> Student:
    """What the student is made of. Models of the hub are checked before the texts are read."""
    name = located(student) if isinstance(student, SentenceTransformer) else str(student)
    planned = plan_student(name, teacher, queries_only)
    for model in (teacher, planned.backbone):
        find_model(model)
    return planned


def _judging_labels(
    labels: Any, columns: str | Sequence[str] | None, queries_only: bool
) -> str | Labels | None:
    """What judges: the user's labels, or None for the STS sets."""
    judging = given_labels(labels, columns)
    if queries_only and judging is None:
        return "none"  # the STS sets ask nothing of documents
    return judging


def _timed_texts(judges: Judges) -> list[str]:
    """Texts to measure speed and memory with."""
    texts = [document.text for document in judges.held_out]
    if judges.queries_only:
        texts = pseudo_queries(judges.held_out).texts
    if len(texts) < TIMED:
        texts = list(similarity_pairs().first)
    return texts[:TIMED]


def _join(teacher: str, student: Path) -> SentenceTransformer:
    """A model whose queries the student reads, and whose documents the teacher reads as before."""
    documents = load(teacher, device="cpu")
    queries = load(student).to("cpu")
    joined = with_query_route(documents, list(queries), list(documents))
    joined.prompts["query"] = used_prompt(queries)  # the words that it was trained with
    return joined


def _teacher_name(preset: Preset) -> str:
    """The one teacher of a preset that is a model of the user's choice."""
    names = [
        name for name, table in preset.teachers.items() if "models" in table or "model" in table
    ]
    if len(names) != 1:
        raise UserError(
            f"the preset {preset.name} has {len(names)} teachers that can be named",
            f"choose one with one teacher, such as {PRESET}",
            code="not-one-teacher",
        )
    return names[0]
