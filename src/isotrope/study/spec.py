"""A study's file: rows, seeds, teachers, published numbers and claims, as checked records."""

from collections.abc import Iterator, Mapping
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
from isotrope.study.columns import KNOWN, LOWER_IS_BETTER
from isotrope.types import Count, NonNegative

Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
Sentences = Annotated[int, Field(ge=2)]
# one needs no list
Listed = BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
Names = Annotated[tuple[str, ...], Listed]
Values = Annotated[tuple[Any, ...], Field(min_length=1)]
Suites = Literal["transfer", "ranking", "geometry", "retrieval"]  # those whose results have columns


def _known(column: str) -> str:
    if column not in KNOWN:
        raise PydanticCustomError(
            "column", "it should be one of {known}", {"known": ", ".join(KNOWN)}
        )
    return column


Column = Annotated[str, AfterValidator(_known)]
Choices = Annotated[tuple[bool | int | float | str, ...], Field(min_length=1)]  # of a search
Published = dict[Column, float]  # column -> the printed number


class _Record(BaseModel, extra="forbid", frozen=True): ...


class SuiteSettings(_Record):
    """``[run.suites] NAME = {…}``: how a suite of isotrope evaluate measures every cell."""

    tasks: Names = ()  # (): all
    setting: str = "test"
    # tokens that a model reads of a text; None: its own
    max_length: Annotated[int, Field(ge=3)] | None = None
    precision: Literal["fp32", "bf16"] = "fp32"  # bf16: quicker, where the processor has it


class CommonSettings(_Record):
    """``[run]``: what all rows have in common."""

    # files, folders or patterns, relative to the data folder or to the present one
    corpus: Names = ()
    split: str | None = None  # "sentences": of the texts, as in isotrope train
    keep_duplicates: bool = False  # of the text, as in isotrope train
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
    # measure how far apart the views of a sentence lie (`isotrope.study.run_cell`)
    positives: bool = False
    # the columns to show; (): all that were measured
    tasks: Annotated[tuple[Column, ...], Listed] = ()
    set: Names = ()  # key=value, where a row's preset has that component
    baseline: str = ""  # the row that the others are compared with; "": the first
    keep_models: bool = False  # teachers are kept in any case
    threads: Count = 1  # of each cell on the processor; the last digits of its scores depend on it

    @property
    def labels(self) -> str | None:
        """``test`` as `isotrope.train` calls it: None for half of the dev pairs."""
        return None if self.test == "dev-half" else self.test


class BackboneSettings(_Record):
    """``[backbones."NAME"]``: settings that this backbone needs, where a row's preset has that
    component.
    """

    set: Names


class TeacherSettings(_Record):
    """``[teachers.NAME]``: a model that is trained first and shared by rows and seeds."""

    preset: str
    set: Names = ()
    backbone: str | None = None  # stays, whatever the study's backbone is
    sentences: Sentences | None = None  # None: the run's
    seed: Seed = 0
    tuned: str = ""  # a trained row: with --tuned, its best settings are this teacher's too


class Range(_Record):
    """Values between two bounds, for a search; with ``log``, each order of magnitude is as likely."""

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


class Reference(_Record):
    """``[reference."NAME"]``: published numbers of a method that is not run."""

    published: Published = {}
    published_sd: Published = {}
    source: str = ""


class RowSettings(Reference):
    """``[rows."NAME"]``: a preset with overrides; ``sweep`` makes a row of each combination of
    values.
    """

    preset: str = "simcse"
    set: Names = ()
    teachers: dict[str, Names] = {}  # a preset's teacher -> its models
    # key -> values; the key "sentences" takes numbers, or shares (≤ 1) of the run's
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
    # without their file, these two have published numbers alone
    vectors: bool = False  # True: the word vectors of run.vectors, averaged
    documents: str = ""  # a name in run.row_documents: the row reads these, and not run.corpus
    positive: str = ""  # with ``documents``: the column of a positive for each text


class Claim(_Record):
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


def _of_each(claims: dict[str, Claim]) -> dict[str, Claim]:
    """A claim with ``each`` as one for each name."""
    found: dict[str, Claim] = {}
    for label, one in claims.items():
        for name in one.each:
            texts = {
                key: getattr(one, key).replace("{}", name)
                for key in ("better", "than", "text", "source")
            }
            found[f"{label}: {name}"] = one.model_copy(update=texts)
        if not one.each:
            found[label] = one
    return found


class FigureSettings(_Record):
    """``[figures.NAME]``: a plot of the measured numbers; each kind is a function in
    `isotrope.study.figures`.
    """

    kind: Literal["bars", "sweep", "curve", "plane", "cosines", "in_batch", "projection"]
    title: str
    rows: Names = ()  # (): all
    columns: Annotated[tuple[Column, ...], Listed] = ("Avg.",)
    x: str = ""  # of a sweep: its key
    source: str = ""


class SearchSettings(_Record):
    """``[search]``: how many trials every row gets, judged by dev pairs, and by tasks made from
    ``documents`` too.
    """

    trials: Count = 20
    documents: Names = ()  # in place of the run's
    seed: Seed = 0
    keys: Annotated[dict[str, Range | Choices], Field(min_length=1)]


class Spec(_Record):
    """A whole study."""

    name: str
    title: str
    source: str = ""
    note: str = ""  # what a reader must know to read the tables
    run: CommonSettings = CommonSettings()
    backbones: dict[str, BackboneSettings] = {}
    teachers: dict[str, TeacherSettings] = {}
    rows: Annotated[dict[str, RowSettings], Field(min_length=1)]
    reference: dict[str, Reference] = {}
    claims: Annotated[dict[str, Claim], AfterValidator(_of_each)] = {}
    # each is a file's name too
    figures: dict[Annotated[str, Field(pattern=r"^[\w-]+$")], FigureSettings] = {}
    search: SearchSettings | None = None


def read_study(name: str | Path, changes: Mapping[str, Any] | None = None) -> Spec:
    """Read and check a study: a shipped one by name, or the user's by path (.toml).

    ``changes`` that are not None replace keys of its ``[run]``.

    Raises:
        UserError: unknown study, broken TOML, unknown key, impossible value; names file, key,
            value, remedy.
    """
    _, tables = read_toml("study", str(name))
    tables.setdefault("name", Path(name).stem)
    given = {key: value for key, value in (changes or {}).items() if value is not None}
    if given and isinstance(tables.setdefault("run", {}), dict):
        known = tables["run"].get("row_documents") if "row_documents" in given else None
        tables["run"] |= given | (
            {"row_documents": known | given["row_documents"]} if isinstance(known, dict) else {}
        )
    try:
        spec = Spec(**tables)
    except ValidationError as error:
        mistake = explain(error, Spec)
        raise UserError(f"study {name}: {mistake.problem}", mistake.remedy) from error
    for key in _idle(spec):
        remedy = "leave it out: rows that are swept, not trained, or of word vectors do not read every key"
        raise UserError(f"study {name}: {key} has no effect", remedy)
    for one in spec.run.row_documents:
        named = {row.documents for row in spec.rows.values()} - {""}
        check_known(f"study {name}: row_documents:", one, sorted(named), ", or leave it out")
    spec = _with_files(spec)
    for label, teacher in spec.teachers.items():
        if teacher.tuned:
            trained = [row for row, of in spec.rows.items() if of.train]
            check_known(
                f"study {name}: the trained row teachers.{label}.tuned =", teacher.tuned, trained
            )
    return spec


def missing_file(row: Reference, run: CommonSettings) -> tuple[str, str] | None:
    """What a row reads of which no file is named, and the option that names it; None if nothing is
    missing.
    """
    if not isinstance(row, RowSettings):
        return None
    if row.vectors:
        return None if run.vectors else ("word vectors", "--vectors FILE")
    found = not row.documents or row.documents in run.row_documents
    return (
        None if found else (f"documents {row.documents!r}", f"--row-documents {row.documents}=FILE")
    )


def _with_files(spec: Spec) -> Spec:
    """The study, its rows of word vectors as rows that are not trained. Without their file, rows
    are references.
    """
    words = {
        label: row.model_copy(update={"train": False})
        for label, row in spec.rows.items()
        if row.vectors
    }
    rows = {
        label: row for label, row in (spec.rows | words).items() if not missing_file(row, spec.run)
    }
    lost = {label: row for label, row in spec.rows.items() if label not in rows}
    for label, row in lost.items():
        if not (row.published and rows) and (missing := missing_file(row, spec.run)):
            problem = f"study {spec.name}: rows.{label} has {missing[0]}, and no file is named"
            raise UserError(problem, f"add {missing[1]}, or the key in [run]")
    claims = {
        label: one for label, one in spec.claims.items() if not {one.better, one.than} & lost.keys()
    }
    shown = {
        label: [row for row in one.rows if row not in lost] for label, one in spec.figures.items()
    }
    figures = {
        label: one.model_copy(update={"rows": tuple(shown[label])})
        for label, one in spec.figures.items()
        if shown[label] or not one.rows
    }
    found = {
        "rows": rows,
        "reference": {**lost, **spec.reference},
        "claims": claims,
        "figures": figures,
    }
    return spec.model_copy(update=found)


def _idle(spec: Spec) -> Iterator[str]:
    """The keys that have no effect."""
    if spec.run.vectors and not any(row.vectors for row in spec.rows.values()):
        yield "run.vectors"
    for label, row in spec.rows.items():
        idle = {"published"} if row.sweep else set[str]()
        if row.vectors:
            idle = {"preset", "set", "teachers", "sweep", "train", "search", "documents"}
        elif not row.train:  # a step in ``then`` is fitted on the sentences, which a sweep may set
            idle |= {"scale", "teachers", "search"} | (
                set() if row.then else {"sentences", "sweep"}
            )
        idle |= {"search"} if spec.search is None else set()
        fitted = row.then and "fit=target" not in row.then
        idle |= {"documents"} if not (row.train or fitted) else set()
        idle |= {"positive"} if not (row.train and row.documents) else set()
        if row.documents and "sentences" in row.sweep:
            yield f"rows.{label}.sweep.sentences"
        yield from (f"rows.{label}.{key}" for key in sorted(row.model_fields_set & idle))
