"""A method is data: TOML → checked records → an Objective and the settings of a run."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sentence_transformers import SentenceTransformer

from isotrope.components.refusals import OF_PASSES
from isotrope.components.registry import (
    READING,
    STAGES,
    checked_options,
    component,
    component_class,
    explain,
    is_third_party,
)
from isotrope.contract.context import BuildContext, Unopened, built
from isotrope.encoder.pooling import LAYERS
from isotrope.errors import UserError
from isotrope.objective.objective import Objective
from isotrope.preset.outside import check_options, refuse_beside_loss
from isotrope.preset.pairs import check_pairs
from isotrope.preset.tables import TomlTable, resolved_tables
from isotrope.preset.tables import preset_names as preset_names
from isotrope.types import AboveZero, Count, Fraction, NonNegative, Teacher

PROBABILITY = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LoraSettings(_Record):
    """``[encoder.lora]``: an adapter is trained instead of the encoder's weights; see isotrope.encoder.adapters."""

    rank: Count = 8  # this and the next two: peft's own defaults
    alpha: Count = 8
    dropout: PROBABILITY = 0.0
    targets: Annotated[list[str], Field(min_length=1)] | None = None  # layers, by the ends of their names; None: peft's
    save: Literal["merged", "adapter"] = "merged"  # a whole model, or the adapter's files alone


class EncoderSettings(_Record):
    """``[encoder]``: where to start, and how a sentence is read."""

    backbone: str
    student: str | None = None  # what is made of the backbone before training; see isotrope.encoder.student
    pooling: Literal[tuple(LAYERS)] | None = None  # type: ignore[valid-type]  # None: the model's own, or mean
    dropout: PROBABILITY | None = 0.1  # None: as the checkpoint says
    normalize: bool | None = None  # None: as the model has it
    prompt: str | None = None  # words before every text; None: the model's default prompt
    prompt_name: str | None = None  # the same, by its name in the model
    positive_prompt: str | None = None  # words before positives and hard negatives; None: as before all texts
    bidirectional: bool | None = None  # a decoder's tokens see those behind; None: no, and no word of it in records
    lora: LoraSettings | None = None  # None: all weights are trained, and no word of it in records


class TrainSettings(_Record):
    """``[train]``: the schedule and the selection."""

    epochs: AboveZero = 1.0
    batch_size: Annotated[int, Field(ge=2, le=1_000_000)] = 64  # a process
    mini_batch_size: Count | None = None  # sentences through the encoder at a time, each pass counted; None: all
    accumulation: Count = 1  # batches an optimizer step; negatives stay within a batch
    learning_rate: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 3e-5
    weight_decay: NonNegative = 0.0
    warmup: Fraction = 0.0  # of all steps
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    max_grad_norm: AboveZero = 1.0  # of encoder and head together
    max_length: Annotated[int, Field(ge=3, le=100_000)] = 32  # tokens, while training
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"  # auto: bf16 where the GPU has it, else fp32
    eval_steps: Count = 250
    save_steps: Count = 500
    select: list[str] = ["stsb-dev"]  # the mean of these dev sets chooses the checkpoint; [] keeps the last
    patience: Count | None = None  # stop after so many evaluations without a better one
    gradient_checkpointing: bool = False  # less memory, a third more time
    dims: Annotated[list[Count], Field(min_length=1)] | None = None  # Matryoshka: widths that each have the loss
    keep_head: bool | None = None  # the view steps become part of the model; None: no, and no word of it in records
    compile: bool | None = None  # the layers, by torch.compile: for GPUs; None: no, and no word of it in records
    fsdp: bool | None = None  # several processes share the weights; None: no, and no word of it in records


RECORDS: dict[str, type[_Record]] = {"encoder": EncoderSettings, "encoder.lora": LoraSettings, "train": TrainSettings}


class Preset(_Record):
    """Everything that a run is, but for its text, its seed and its place."""

    name: str
    description: str = ""
    encoder: EncoderSettings
    train: TrainSettings = TrainSettings()
    pairs: TomlTable | None = None  # the text is documents, and pairs are drawn from them
    loss: str | None = None  # an outside loss, as module:Class, instead of views, scores and terms
    loss_options: TomlTable | None = None
    tokens: TomlTable = {}
    peers: TomlTable | None = None  # None: no, and no word of it in records
    views: TomlTable = {}
    scores: TomlTable = {}
    terms: TomlTable = {}
    teachers: TomlTable = {}

    @property
    def method(self) -> str:
        """What is trained: the class of the outside loss, else the preset's name."""
        return (self.loss or self.name).rpartition(":")[2]

    def toml(self) -> str:
        """The resolved preset, which ``read_preset`` takes again."""
        settings = self.model_dump(exclude_none=True, exclude={"name"})
        kept = {key: value for key, value in settings.items() if value not in ({}, "")}
        lists = re.compile(r"\[\n    (.*?),\n\]", flags=re.DOTALL)  # on one line, so that a comment fits behind
        return lists.sub(lambda m: "[" + m[1].replace("\n    ", " ") + "]", tomli_w.dumps(kept))


def read_preset(name: str | Path, overrides: Iterable[str] = ()) -> Preset:
    """A shipped preset by name, or the user's by path (.toml), with ``key=value`` overrides.

    Raises:
        UserError: unknown preset, broken TOML, unknown key, impossible value; names file, key, value and remedy.
            Nothing of a third party is imported: for its components, see `check_third_parties`.
    """
    tables = resolved_tables(str(name), overrides)
    tables.setdefault("name", Path(name).stem if str(name).endswith(".toml") else str(name))
    try:
        preset = Preset(**tables)
    except ValidationError as error:
        table = ".".join(map(str, error.errors()[0]["loc"][:-1]))
        mistake = explain(error, "", list(RECORDS.get(table, Preset).model_fields), _keys(tables))
        raise UserError(f"preset {name}: {mistake.problem}", mistake.remedy) from error
    if preset.loss is not None or preset.loss_options is not None:
        refuse_beside_loss(preset)
    if not preset.loss and not _named(preset.terms, "terms"):
        raise UserError(f"preset {name} has no terms, so no loss", "add one, such as [terms.infonce]")
    _check_components(preset, third_parties=False)
    return preset


def _keys(tables: TomlTable) -> list[str]:
    """The keys that can be set: of the records, and those that the preset's components have."""
    found = [f"{table}.{key}" for table, record in RECORDS.items() for key in record.model_fields]
    for stage in STAGES:
        for label, table in tables[stage].items() if isinstance(tables.get(stage), Mapping) else ():
            found += [f"{stage}.{label}.{key}" for key in table] if isinstance(table, Mapping) else []
    return [*found, *(f"{READING}.{key}" for key in tables.get(READING) or ())]


def check_third_parties(preset: Preset) -> None:
    """Import what a preset names as ``module:Class``, and check its options: when a run starts."""
    if preset.loss:
        check_options(preset.loss, preset.loss_options or {}, preset.teachers)
    _check_components(preset, third_parties=True)


def _check_components(preset: Preset, third_parties: bool) -> None:
    if preset.pairs is not None:
        check_pairs(preset.pairs, third_parties)
    for stage, label, kind, options in _tables(preset):
        if is_third_party(kind) != third_parties:
            continue
        with _named_by_table([(stage, label, kind)]):
            asked = checked_options(stage, kind, options).get("teacher", SELF)
        if asked != SELF and asked not in preset.teachers:
            problem = f"{stage}.{label}.teacher = {asked!r}, which does not exist"
            raise UserError(problem, f"add a table [teachers.{asked}]")


def open_teachers(preset: Preset, context: BuildContext) -> dict[str, Teacher]:
    """The preset's teachers, their embeddings in the cache: long, the first time."""
    return {label: built(made, context) for label, made in _made(preset, "teachers")}


def unopened_teachers(preset: Preset, context: BuildContext) -> dict[str, Unopened]:
    """What is known of the preset's teachers before `open_teachers`."""
    return {label: Unopened(made, context) for label, made in _made(preset, "teachers")}


def build_objective(
    preset: Preset,
    model: SentenceTransformer,
    seed: int = 0,
    teachers: Mapping[str, Teacher] | None = None,
    context: BuildContext | None = None,
) -> Objective:
    """The preset's objective for this student; its weights are drawn from torch's generator.

    ``context`` is what the components are built with; by default what the student tells.
    """
    context = context or BuildContext.of(model)
    tables = {stage: getattr(preset, stage) for stage in OF_PASSES}
    tokens, peers = ([(made, on[label].get("on", [1])) for label, made in _made(preset, s)] for s, on in tables.items())
    parts = [(stage, label, kind) for stage, label, kind, _ in _tables(preset)]
    terms, views, scores = (_made(preset, stage) for stage in ("terms", "views", "scores"))
    with _named_by_table(parts):
        return Objective(
            model,
            dict(terms),
            tokens=tokens,
            peers=peers,
            views=[step for _, step in views],
            scores=[step for _, step in scores],
            passes=preset.views.get("passes", 2),
            teachers=teachers,
            dims=preset.train.dims or (),
            seed=seed,
            context=replace(context, teachers=unopened_teachers(preset, context)),
            mini_batch_size=preset.train.mini_batch_size,
        )


def component_classes(preset: Preset) -> list[type]:
    """The classes of all components of a preset, stage by stage."""
    reading = [component_class(READING, preset.pairs["kind"])] if preset.pairs else []
    return [*reading, *(component_class(stage, kind) for stage, _, kind, _ in _tables(preset))]


def _made(preset: Preset, wanted: str) -> list[tuple[str, Any]]:
    """The components of a stage, each with its label, not yet built for a run."""
    made = []
    for stage, label, kind, options in _tables(preset):
        if stage == wanted:
            with _named_by_table([(stage, label, kind)]):
                made.append((label, component(stage, kind, **options)))
    return made


@contextmanager
def _named_by_table(parts: Iterable[tuple[str, str, str]]) -> Iterator[None]:
    """A mistake in the options of a component (stage, label, kind) is named by the preset's table."""
    try:
        yield
    except UserError as error:
        problem = error.problem
        for stage, label, kind in parts:
            problem = problem.replace(f"{stage}.{kind}.", f"{stage}.{label}.")
        raise UserError(problem, error.remedy) from error


def _tables(preset: Preset) -> list[tuple[str, str, str, TomlTable]]:
    """(stage, label, kind, options) of every component, in order."""
    return [(stage, *each) for stage in STAGES for each in _named(getattr(preset, stage) or {}, stage)]


SELF = "self"  # instance weights from the student's own cosines need no teacher
RESERVED = {"order", "passes"}  # keys of a stage that are not named tables
LOG_FIELDS = {"step", "epoch", "loss", "score", "grad_norm", "learning_rate"}  # fields of the log, beside the terms
MOST_PASSES = 64


def _named(table: TomlTable, stage: str) -> list[tuple[str, str, TomlTable]]:
    """A stage's (label, kind, options) in order. A table's kind is its own name; that of a teacher is a mixture."""
    labels = [key for key in table if key != "order" and not (key == "passes" and stage == "views")]
    for label in labels:
        if not isinstance(table[label], Mapping):
            raise UserError(f"{stage}.{label} = {table[label]!r} is an unknown key", f"write a table [{stage}.{label}]")
        if stage == "terms" and label in LOG_FIELDS:
            raise UserError(f"terms.{label}: the run's log has a field of that name", "choose another label")
        if "dim" in table[label]:
            raise UserError(f"{stage}.{label}.dim is an unknown key", "leave it out: the model's width is taken")
        on = table[label].get("on", [1])
        if stage in OF_PASSES and not (
            isinstance(on, list) and on and all(number in range(MOST_PASSES) for number in on)
        ):
            raise UserError(f"{stage}.{label}.on = {on!r} is not possible", "list the passes, counted from 0: on = [1]")
    order, passes = table.get("order", labels), table.get("passes", 2)
    if not isinstance(order, list) or sorted(map(str, order)) != sorted(labels):
        raise UserError(f"{stage}.order = {order!r}", f"name each of {labels} once")
    if stage == "views" and (not isinstance(passes, int) or not 1 <= passes <= MOST_PASSES):
        raise UserError(f"views.passes = {passes!r} is not possible", f"choose a whole number from 1 to {MOST_PASSES}")
    skip = {"kind"} | ({"on"} if stage in OF_PASSES else set())
    return [
        (
            label,
            str(table[label].get("kind", "mixture" if stage == "teachers" else label)),
            {key: value for key, value in table[label].items() if key not in skip},
        )
        for label in order
    ]
