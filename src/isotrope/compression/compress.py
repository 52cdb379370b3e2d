"""A teacher and text in; a small model that follows the teacher out, with what it keeps and what it
saves.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from datasets import Dataset
from rich.console import Console
from sentence_transformers import SentenceTransformer

from isotrope.compression.cost import costs
from isotrope.compression.page import (
    compression_verdict,
    each_task,
    student_evidence,
    write_student_report,
)
from isotrope.compression.quality import compare_quality, kept_share
from isotrope.compression.vocabulary import Cut, cut_alone, cut_first
from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.encoder import load, save
from isotrope.encoder.checksum import GivenModel, located
from isotrope.encoder.locate import check_hub, locate, public_name
from isotrope.encoder.prompts import role_prompt, used_prompt, with_query_route
from isotrope.encoder.student import IN_PLACE, STATIC, check_student, without_vocabulary
from isotrope.encoder.vocabulary import tokenizer_kind
from isotrope.errors import UserError, check_known
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.evaluation.sets.similarity import similarity_pairs
from isotrope.improvement.budget import check_minutes
from isotrope.improvement.decide import AS_IS
from isotrope.improvement.improve import FEWEST, Improvement, improve
from isotrope.preset.preset import Preset, read_preset
from isotrope.report.card import NAME as CARD
from isotrope.report.card import Card, save_card
from isotrope.report.outcome import framed
from isotrope.report.page import MODEL
from isotrope.report.saving import save_model
from isotrope.report.switching import Switch
from isotrope.store.files import Record
from isotrope.text import TextLike, TextSource, read_text
from isotrope.text.corpus import Document
from isotrope.text.permutation import RowIds
from isotrope.text.pseudo_queries import pseudo_queries
from isotrope.text.sample import Sample
from isotrope.training.folder import RunFolder
from isotrope.training.pairs import given_labels, named_pairs
from isotrope.training.prepare import untrained
from isotrope.training.processes import refuse_several
from isotrope.training.train import Run, train

PRESET = "distil"
TINY = "isotrope/tiny"
RATE = 1e-4  # of a student that knows something: a good model is spoilt by the rate of a raw one
# of one vector a token, which few steps move. The order of all cosines of held-out texts agrees
# with the teacher's by
# 0.25 with the preset's 1e-3, 0.43 with this, and 0.45 with 3e-2, with which a reader of queries is
# worse.
STATIC_RATE = 1e-2
BOTH, QUERY = SIDES = ("both", "query")  # what the student reads
# Over the preset's keys, if it reads queries only: its own vector is its teacher's, of texts that
# look like queries.
_QUERY_KEYS = (
    "terms=false", "terms={vectors={kind='vector_match', teacher='teacher', projected=false}}",
    "pairs=false", "pairs={kind='queries', rounds=8}",
)  # fmt: skip
_HELD_OUT = 2000  # texts, or a fifth: they judge
TIMED = 64  # texts that are encoded to measure speed and memory


class Compression(Run):
    """A student: a finished training, and how it compares with its teacher."""

    @property
    def kept(self) -> float:
        """The student's points over its teacher's."""
        return float(self.record["compression"]["kept"])

    @property
    def table(self) -> Any:
        """Task → teacher, start, student, as fractions; a DataFrame if pandas is installed."""
        return framed(
            {
                task: {"teacher": far["before"], "start": own["before"], "student": far["after"]}
                for task, far, own in each_task(self.record["compression"])
            }
        )

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
    sentences: int | None = None,
    dev: str | Sequence[str] | None = None,
    labels: Any = None,
    columns: str | Sequence[str] | None = None,
    data: str | Path | None = None,
    overrides: Iterable[str] = (),
    text: str | None = None,
    title: str | None = None,
    split: str | None = None,
    minutes: float | None = None,
    restart: bool = False,
    console: Console | None = None,
) -> Compression | Cut:
    """Train a small model to give the similarities that a large one gives, on text without labels.

    The run is one of `isotrope.train` with the preset ``distil``. Afterwards the student is
    compared with its teacher and with itself before training: points kept, speed, weights, memory.
    The verdict compares it with its teacher.

    Args:
        model: the large model, the teacher: a loaded one, which is left as it was, or what
            `isotrope.load` takes.
        documents: text of any kind: see `isotrope.text.read_text`. A fifth of it, 2,000 texts at most,
            is held out, and judges.
        student: ``tiny`` (isotrope/tiny), ``layers:3`` (layers of the teacher, spread evenly;
            ``layers:3:first`` and ``layers:3:last`` take others;
            ``,vocabulary:27000,inner:768,embeddings:256`` after it makes it smaller still),
            ``static`` (one vector a token, for `StaticEmbedding`), or any model.
            ``vocabulary:30000`` alone keeps the tokens that the documents need most, and nothing is
            trained: a text that needs no lost token keeps its vector to the last bit.
        side: ``query``: the student reads queries only, and the result is one model with two
            routes, because its ``encode_document`` is the teacher's to the last bit. A model of the
            teacher's width may be such a student. With two layers of a BERT, that keeps 92.5 % of
            the quality on BEIR (Wang and Lyu, 2023, https://arxiv.org/abs/2306.11550). ``both``: it
            reads all texts.
        output: a folder for the student and the work; None: a temporary one, which the result
            keeps.
        seed: of all random numbers.
        preset: a method with a teacher.
        sentences: train on a random sample of this size; None takes all that is not held out.
        dev: what chooses the checkpoint: see `isotrope.train`.
        labels: what judges too, as `isotrope.train` takes it, and so are the columns.
        columns: of the labels, in a table.
        data: the folder that holds ``senteval/``; None takes ISOTROPE_DATA.
        overrides: ``key=value`` over the preset's keys.
        text: the column of the texts, in tables.
        title: the column of the documents' titles, in tables.
        split: ``sentences`` trains on the sentences of the texts.
        minutes: then `isotrope.improve` the student for so long on the texts that are not held out;
            its teacher also teaches it rankings. The report is on the improved student. None: the
            training is all.
        restart: begin anew; otherwise the same call goes on where it stopped.
        console: where to report; None reports to the terminal.

    Raises:
        UserError: a mistake of the user's; before long work if it can be found then.
        Stopped: Ctrl-C; the run can be resumed.
    """
    console = console or plain_console()
    refuse_several("compress")
    check_known("side =", side, SIDES)
    teacher = located(model)
    small = located(student) if isinstance(student, SentenceTransformer) else str(student)
    backbone, own = _student(teacher, query_student(small) if side == QUERY else small)
    for name in (teacher, backbone):
        check_hub(locate(name))  # before the texts are read
    opened = read_text(documents, text_column=text, title_column=title, split=split)
    rest, tokens = without_vocabulary(small)
    if minutes is not None:
        reads_all = side == BOTH and (rest or not tokens)
        check_minutes(
            minutes,
            "" if reads_all else ": only a student that learns to read all texts can be improved",
        )
    if tokens and not rest:
        return cut_alone(teacher, tokens, opened, output, restart, console)
    # it keeps its first tokens
    if tokens and tokenizer_kind(load(teacher, device="cpu", frozen=True)) != "WordPiece":
        backbone, (_, own) = cut_first(teacher, tokens, opened, console), _student(teacher, rest)
    overrides = [*own, *(_query_keys(teacher) if side == QUERY else ()), *overrides]
    method, labels = read_preset(preset, overrides), given_labels(labels, columns)
    if side == QUERY and labels is None:
        labels = "none"  # the STS sets ask nothing of documents
    label = _label(method)
    with watch("reading the texts", console):
        share, each, judging, others = _held_out(opened, method, sentences, seed)
    if minutes and len(others) < FEWEST:
        console.print(f"the student is only trained: {len(others)} texts are too few to improve it")
        minutes = None
    with watch("training", console):
        run = train(
            opened,
            preset=preset,
            model=backbone,
            teachers={label: [teacher]},
            labels=labels,
            dev=dev,
            output=output,
            data=data,
            seed=seed,
            overrides=overrides,
            restart=restart,
            console=plain_console(quiet=True),
            **share,
        )
    done = run.record.get("compression")
    if done and minutes in (None, done.get("minutes")):
        return Compression(run.job, run.record)
    with run.job.held():
        folder = RunFolder(run.folder)
        graded, _ = named_pairs(
            dev, method.train.select, labels, data or os.environ.get("ISOTROPE_DATA")
        )
        asked = labels if isinstance(labels, RetrievalSet) else None
        models = [
            load(teacher, frozen=True),
            untrained(folder.preset.encoder),
            load(folder.model, frozen=True),
        ]
        names = {"teacher": public_name(teacher), "student": public_name(small)}
        found: Record = {**names, "side": side, "minutes": minutes}
        if minutes:
            better = _improved(folder, teacher, each(others), minutes, seed, data, console)
            found["improved"] = {"choice": better.choice, "verdict": better.record["verdict"]}
            if better.choice != AS_IS:
                models[2] = better.model
                save_model(better.model, folder.model, Card.of(better.folder / MODEL))
        held_out = list(each(judging))
        with watch("judging", console):
            found["quality"], found["searched"] = compare_quality(
                models, held_out, graded, asked, side == QUERY
            )
        found["kept"] = kept_share(found["quality"])
        texts = (
            pseudo_queries(held_out).texts
            if side == QUERY
            else [document.text for document in held_out]
        )
        texts = (texts if len(texts) >= TIMED else similarity_pairs().first)[:TIMED]
        with watch("measuring speed and memory", console):
            found["cost"] = costs(models[0], models[2], [teacher, str(folder.model)], texts)
        verdict = compression_verdict(found)
        card = Card.of(folder.model).judged(verdict, student_evidence(found))
        if side == QUERY:
            joined = _query_side(teacher, load(folder.model))
            found["switch"] = Switch.of(joined, documents_stay=True).model_dump()
            save_model(joined, folder.model, card.describing(joined, documents_stay=True))
        else:
            found["switch"] = Switch.of(models[2]).model_dump()
            save_card(folder.model, card)
        record = {**run.record, "verdict": verdict.record(), "compression": found}
        return Compression(run.job, run.job.finish(record))


def query_student(student: str) -> str:
    """The student whose vectors begin among its teacher's: made of the teacher, or a model that
    follows it already.
    """
    if "/" not in student:
        check_student(without_vocabulary(student)[0])
    return IN_PLACE if student == STATIC else student


def _query_keys(teacher: str) -> list[str]:
    """The preset's keys for a student that follows a teacher's queries: both read the words before
    a query.
    """
    encoder = load(teacher, device="cpu", frozen=True)
    words = role_prompt(encoder, "query")
    if not words or words == used_prompt(encoder):
        return list(_QUERY_KEYS)
    own, its = ({"prompt": each} for each in (words, [words]))
    return [*_QUERY_KEYS, f"encoder.{tomli_w.dumps(own)}", f"teachers.teacher.{tomli_w.dumps(its)}"]


def _query_side(teacher: str, student: SentenceTransformer) -> SentenceTransformer:
    """A model whose queries the student reads, and whose documents the teacher reads as before."""
    whole = load(teacher, device="cpu")
    joined = with_query_route(whole, list(student.to("cpu")), list(whole))
    joined.prompts["query"] = used_prompt(student)  # the words that it was trained with
    return joined


def _student(teacher: str, student: str) -> tuple[str, list[str]]:
    """The backbone, and the preset's keys that say what is made of it and how fast it learns."""
    if student in ("tiny", TINY):
        return TINY, []
    word = re.split("[:,]", student)[0] in ("layers", "vocabulary", "inner", STATIC)
    if word or not ("/" in student or (student and Path(student).expanduser().exists())):
        check_student(student)
        rate = STATIC_RATE if student.startswith(STATIC) else RATE
        return teacher, [f"encoder.student={student!r}", f"train.learning_rate={rate}"]
    return student, [f"train.learning_rate={RATE}"]


def _label(preset: Preset) -> str:
    """The one teacher of a preset that is a model of the user's choice."""
    labels = [
        label for label, table in preset.teachers.items() if "models" in table or "model" in table
    ]
    if len(labels) != 1:
        problem = f"the preset {preset.name} has {len(labels)} teachers that can be named"
        raise UserError(problem, f"choose one with one teacher, such as {PRESET}")
    return labels[0]


def _held_out(
    text: TextSource, preset: Preset, sentences: int | None, seed: int
) -> tuple[dict[str, Any], Callable[[RowIds], Iterable[Document]], RowIds, RowIds]:
    """What `train` is given so that some texts are left out; texts by their rows; the rows that
    judge, all others.
    """
    if preset.pairs is not None:
        documents = text.documents()
        count = min(_HELD_OUT, len(documents) // 5)
        trained, judging = documents.split(count, seed)
        return {"held_out": count, "max_texts": sentences}, documents.each, judging, trained
    corpus = text.texts()
    most = len(corpus) - min(_HELD_OUT, len(corpus) // 5)
    used = min(sentences or most, most)
    drawn, rows = Sample(corpus, used, seed).rows, np.arange(len(corpus))
    left = np.setdiff1d(rows, [] if drawn is None else drawn)
    judging = left[np.linspace(0, len(left) - 1, min(len(left), _HELD_OUT)).astype(np.int64)]

    def each(wanted: RowIds) -> Iterator[Document]:
        return (Document("", [one]) for one in corpus.texts(wanted))

    return {"max_texts": used}, each, judging, np.setdiff1d(rows, judging)


def _improved(
    folder: RunFolder,
    teacher: str,
    documents: Iterable[Document],
    minutes: float,
    seed: int,
    data: str | Path | None,
    console: Console,
) -> Improvement:
    """The student, which is kept as it was trained, made better with its teacher as a teacher of
    rankings.
    """
    student = folder.path / "student"
    if not student.is_dir():
        save(load(folder.model), student, card=(folder.model / CARD).read_text(encoding="utf-8"))
    given = Dataset.from_list(
        [{"title": one.title, "text": "\n\n".join(one.paragraphs)} for one in documents]
    )
    console.print(f"the student is trained; it is improved for {minutes:g} minutes")
    return improve(
        student,
        given,
        output=folder.path / "improved",
        minutes=minutes,
        seed=seed,
        data=data,
        teachers=[teacher],
        console=console,
    )
