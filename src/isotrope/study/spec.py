"""A study's file: rows, seeds, teachers, published numbers and claims, as checked records."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    FiniteFloat,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from isotrope.components.registry import explain
from isotrope.errors import UserError, check_known
from isotrope.preset.tables import read_toml
from isotrope.store.files import Record
from isotrope.study.columns import KNOWN, LOWER_IS_BETTER
from isotrope.types import Count, NonNegative

Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
Sentences = Annotated[int, Field(ge=2)]


def _listed(value: Any) -> Any:
    """One name needs no list."""
    return (value,) if isinstance(value, str) else value


Listed = BeforeValidator(_listed)
Settings = tuple[str, ...]  # each as key=value
Names = Annotated[tuple[str, ...], Listed]
NotEmpty = Field(min_length=1)
Values = Annotated[tuple[Any, ...], NotEmpty]
Suites = Literal["transfer", "ranking", "geometry", "retrieval"]  # those whose results have columns


def _known_column(column: str) -> str:
    if column not in KNOWN:
        raise PydanticCustomError(
            "column", "it should be one of {known}", {"known": ", ".join(KNOWN)}
        )
    return column


Column = Annotated[str, AfterValidator(_known_column)]
Columns = Annotated[tuple[Column, ...], Listed]
Choices = Annotated[tuple[bool | int | float | str, ...], NotEmpty]  # of a search
Numbers = dict[Column, float]  # column -> the printed number


class _Table(BaseModel, extra="forbid", frozen=True):
    """A table of the study's file."""


class SuiteSettings(_Table):
    """``[run.suites] NAME = {…}``: how a suite of isotrope evaluate measures every cell."""

    tasks: Names = ()  # (): all
    setting: str = "test"
    # tokens that a model reads of a text; None: its own
    max_length: Annotated[int, Field(ge=3)] | None = None
    precision: Literal["fp32", "bf16"] = "fp32"  # bf16: quicker, where the processor has it


class CommonSettings(_Table):
    """``[run]``: what all rows have in common."""

    # files or folders, relative to the data folder or to the present one
    corpus: Names = ()
    # of the text, as in isotrope train; published numbers of steps need it
    keep_duplicates: bool = False
    sentences: Sentences | None = None  # a random sample of so many; None: all
    seeds: Count = 5  # each row is trained with the seeds 0 … seeds − 1
    backbone: str | None = None  # instead of the presets' own
    vectors: str = ""  # a file of word vectors, for the rows that take it
    # a row's ``documents`` -> the file or folder that is its text
    row_documents: dict[str, str] = {}
    dev: Names | None = None  # as in isotrope train; None: as each preset says
    # dev-half: half of one's own dev pairs; stsb-dev: for figures alone, since these pairs select
    # too
    test: Literal["sts", "stsb", "stsb-dev", "dev-half", "none"] = "sts"
    suites: dict[Suites, SuiteSettings] = {}
    # named as ``corpus``, which --documents replaces: tasks made from them judge every cell too
    documents: Names = ()
    # measure how far apart the views of a sentence lie (`isotrope.study.measure`)
    positives: bool = False
    # the columns to show; (): all that were measured
    tasks: Columns = ()
    set: Names = ()  # key=value, where a row's preset has that component
    baseline: str = ""  # the row that the others are compared with; "": the first

    @property
    def labels(self) -> str | None:
        """``test`` as `isotrope.train` calls it: None for half of the dev pairs."""
        return None if self.test == "dev-half" else self.test


class BackboneSettings(_Table):
    """``[backbones."NAME"]``: settings that this backbone needs, where a row's preset has that
    component.
    """

    set: Names


class TeacherSettings(_Table):
    """``[teachers.NAME]``: a model that is trained first and shared by rows and seeds."""

    preset: str
    set: Names = ()
    sentences: Sentences | None = None  # None: the run's
    seed: Seed = 0
    tuned: str = ""  # a trained row: with --tuned, its best settings are this teacher's too


class Range(_Table):
    """Values between two bounds, for a search; with ``log``, each order of magnitude is as
    likely.
    """

    low: FiniteFloat
    high: FiniteFloat
    log: bool = False

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.high < self.low or (self.log and self.low <= 0):
            raise PydanticCustomError(
                "range", "it should have a high that is at least low, and with log a low above 0"
            )
        return self


class Reference(_Table):
    """``[reference."NAME"]``: published numbers of a method that is not run."""

    published: Numbers = {}
    published_sd: Numbers = {}
    source: str = ""
    # what is different behind the published numbers, such as another text. A row with ``documents``
    # too reads the run's text until their file is named, and then nothing is different.
    differs: str = ""


class RowSettings(Reference):
    """``[rows."NAME"]``: a preset with overrides; ``sweep`` makes a row of each combination of
    values.
    """

    preset: str = "simcse"
    set: Names = ()
    # key -> values; the key "sentences" takes numbers, or shares (≤ 1) of the run's sentences, or
    # of the whole text
    sweep: dict[str, Values] = {}
    # more keys for this row's search; the same key replaces the study's
    search: dict[str, Range | Choices] = {}
    sentences: Sentences | None = None  # None: the run's
    # shrink with the share
    scale: Annotated[tuple[Literal["train.eval_steps", "train.save_steps"], ...], Listed] = ()
    # a step behind the model, as whitening:k=128; on the row's sentences, with fit=target on the
    # test's
    then: str = ""
    train: bool = True  # False: the backbone as it is, read with the preset's pooling
    # without their file, a row with one of these two has published numbers alone
    vectors: bool = False  # True: the word vectors of run.vectors, averaged
    # a name in run.row_documents: the row reads these, and not run.corpus; see also ``differs``
    documents: str = ""
    positive: str = ""  # with ``documents``: the column of a positive for each text


class Claim(_Table):
    """``[claims."NAME"]``: what a paper says about two rows (or about a row and a teacher)."""

    better: str
    than: str
    text: str
    each: Names = ()  # a claim for each name, which replaces every {} in the texts here
    source: str = ""
    column: Column = "Avg."
    # less is no advantage; None: half a point, or 0 if the column is not in points
    margin: NonNegative | None = None
    # ``better`` keeps at least this share of ``than``
    share: Annotated[float, Field(gt=0, lt=1)] | None = None
    spread: bool = False  # not the scores: ``better`` has the smaller standard deviation over seeds

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.share and (self.spread or self.column in LOWER_IS_BETTER):
            raise PydanticCustomError(
                "share", "it should have share only without spread, where higher is better"
            )
        if self.spread and self.margin is not None:
            raise PydanticCustomError("spread", "it should have spread only without margin")
        return self


def _claims_of_each(claims: dict[str, Claim]) -> dict[str, Claim]:
    """The claims, where one with ``each`` has become one for each name."""
    expanded = {}
    for label, claim in claims.items():
        if not claim.each:
            expanded[label] = claim
        texts = claim.model_dump(include={"better", "than", "text", "source"})
        for name in claim.each:
            changes = {field: text.replace("{}", name) for field, text in texts.items()}
            expanded[f"{label}: {name}"] = claim.model_copy(update=changes)
    return expanded


class FigureSettings(_Table):
    """``[figures.NAME]``: a plot of the measured numbers; each kind is a function in
    `isotrope.study.figures`.
    """

    kind: Literal["bars", "sweep", "curve", "plane", "cosines", "in_batch", "projection"]
    title: str
    rows: Names = ()  # (): all
    columns: Columns = ("Avg.",)
    x: str = ""  # of a sweep: its key
    source: str = ""


class SearchSettings(_Table):
    """``[search]``: how many trials every row gets, judged by dev pairs, and by tasks made from
    ``documents`` too.
    """

    trials: Count = 20
    documents: Names = ()  # in place of the run's
    seed: Seed = 0
    keys: Annotated[dict[str, Range | Choices], NotEmpty]


class Spec(_Table):
    """A whole study."""

    name: str
    title: str
    source: str = ""
    note: str = ""  # what a reader must know to read the tables
    run: CommonSettings = CommonSettings()
    backbones: dict[str, BackboneSettings] = {}
    teachers: dict[str, TeacherSettings] = {}
    rows: Annotated[dict[str, RowSettings], NotEmpty]
    reference: dict[str, Reference] = {}
    claims: Annotated[dict[str, Claim], AfterValidator(_claims_of_each)] = {}
    # each is a file's name too
    figures: dict[Annotated[str, Field(pattern=r"^[\w-]+$")], FigureSettings] = {}
    search: SearchSettings | None = None


def read_study(name: str | Path, changes: Record | None = None) -> Spec:
    """Read and check a study: a shipped one by name, or the user's by path (.toml).

    ``changes`` that are not None replace keys of its ``[run]``.

    Raises:
        UserError: unknown study, broken TOML, unknown key, impossible value; names file, key,
            value, remedy.
    """
    _, tables = read_toml("study", str(name))
    tables.setdefault("name", Path(name).stem)
    _replace_run_keys(tables, changes or {})
    try:
        spec = Spec(**tables)
    except ValidationError as error:
        mistake = explain(error, Spec)
        raise UserError(
            f"study {name}: {mistake.problem}", mistake.remedy, code=mistake.code
        ) from error
    for key in _keys_without_effect(spec):
        raise UserError(
            f"study {spec.name}: {key} has no effect",
            "leave it out: rows that are swept, not trained, or of word vectors do not read "
            "every key",
            code="no-effect",
        )
    _check_row_documents(spec)
    spec = _with_named_files(spec)
    _check_tuned_teachers(spec)
    return spec


def _replace_run_keys(tables: Record, changes: Record) -> None:
    """Put the changes into the study's ``[run]``; files of ``row_documents`` are added to its
    own.
    """
    run = tables.setdefault("run", {})
    if not isinstance(run, dict):  # pydantic refuses what is no table
        return
    row_documents = run.get("row_documents")
    run |= {key: value for key, value in changes.items() if value is not None}
    if isinstance(row_documents, dict):
        run["row_documents"] = row_documents | run["row_documents"]


def _keys_without_effect(spec: Spec) -> Iterator[str]:
    takes_vectors = any(row.vectors for row in spec.rows.values())
    if spec.run.vectors and not takes_vectors:
        yield "run.vectors"
    for label, row in spec.rows.items():
        unread = _unread_keys(row, searched=spec.search is not None)
        for key in sorted(row.model_fields_set & unread):
            yield f"rows.{label}.{key}"
        if row.documents and "sentences" in row.sweep:
            yield f"rows.{label}.sweep.sentences"


def _unread_keys(row: RowSettings, searched: bool) -> set[str]:
    """The keys that a row like this one does not read."""
    unread = set()
    if row.vectors:
        unread = {"preset", "set", "sweep", "train", "search", "documents"}
    elif not row.train:
        unread = {"scale", "search"}
        if not row.then:  # a step is fitted on the sentences, which a sweep may set
            unread |= {"sentences", "sweep"}
        if not row.then or "fit=target" in row.then:
            unread.add("documents")
    if row.sweep:
        unread.add("published")
    if not searched:
        unread.add("search")
    if not (row.train and row.documents):
        unread.add("positive")
    return unread


def _check_row_documents(spec: Spec) -> None:
    """Refuse a file for documents that no row names."""
    named_by_rows = sorted({row.documents for row in spec.rows.values()} - {""})
    where = f"study {spec.name}: row_documents:"
    for name in spec.run.row_documents:
        check_known(where, name, named_by_rows, ", or leave it out")


def _check_tuned_teachers(spec: Spec) -> None:
    trained = [label for label, row in spec.rows.items() if row.train]
    for label, teacher in spec.teachers.items():
        if teacher.tuned:
            where = f"study {spec.name}: the trained row teachers.{label}.tuned ="
            check_known(where, teacher.tuned, trained)


@dataclass(frozen=True, slots=True)
class MissingFile:
    """What a row reads of which no file is named."""

    content: str  # "word vectors"
    option: str  # "--vectors FILE", which names it


def missing_file(row: Reference, run: CommonSettings) -> MissingFile | None:
    """The file without which a row is not run; None if nothing is missing."""
    if not isinstance(row, RowSettings):
        return None
    if row.vectors:
        return None if run.vectors else MissingFile("word vectors", "--vectors FILE")
    if not row.documents or row.documents in run.row_documents or row.differs:
        return None
    return MissingFile(f"documents {row.documents!r}", f"--row-documents {row.documents}=FILE")


def _with_named_files(spec: Spec) -> Spec:
    """The study by the files that are named: rows without theirs have published numbers alone."""
    rows = {}
    printed = {}
    for label, row in spec.rows.items():
        if missing_file(row, spec.run):
            printed[label] = row
        else:
            rows[label] = _with_text(row, spec.run)
    _check_printed_rows(spec, printed, is_alone=not rows)

    claims = {}
    for label, claim in spec.claims.items():
        if claim.better not in printed and claim.than not in printed:
            claims[label] = claim
    figures = {}
    for label, figure in spec.figures.items():
        figure_rows = tuple(row for row in figure.rows if row not in printed)
        if figure_rows or not figure.rows:
            figures[label] = figure.model_copy(update={"rows": figure_rows})
    changes = {
        "rows": rows,
        "reference": printed | spec.reference,
        "claims": claims,
        "figures": figures,
    }
    return spec.model_copy(update=changes)


def _with_text(row: RowSettings, run: CommonSettings) -> RowSettings:
    """A row after the choice of its text.

    Word vectors are not trained. A row may name documents of its own, which the run gives or not.
    If not, a row whose published numbers may differ reads the run's text.
    """
    if row.vectors:
        return row.model_copy(update={"train": False})
    if not (row.documents and row.differs):
        return row
    if row.documents in run.row_documents:
        return row.model_copy(update={"differs": ""})
    return row.model_copy(update={"documents": "", "positive": ""})


def _check_printed_rows(spec: Spec, printed: Mapping[str, Reference], is_alone: bool) -> None:
    """Refuse a row without its file that has no published number either, or a study of such
    rows.
    """
    for label, row in printed.items():
        missing = missing_file(row, spec.run)
        if missing and (is_alone or not row.published):
            raise UserError(
                f"study {spec.name}: rows.{label} has {missing.content}, and no file is named",
                f"add {missing.option}, or the key in [run]",
                code="row-without-file",
            )
