"""A method is data: TOML → checked records → an Objective and the settings of a run."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, Field, ValidationError
from sentence_transformers import SentenceTransformer

from isotrope.components.refusals import OF_PASSES
from isotrope.components.registry import (
    READING,
    STAGES,
    THIRD_PARTY,
    component_class,
    explain,
    make_component,
)
from isotrope.contract.context import BuildContext, TeacherSpec, built
from isotrope.encoder.pooling import POOLINGS
from isotrope.errors import UserError
from isotrope.objective.objective import Objective
from isotrope.preset.tables import TomlTable, leaves, resolved_tables
from isotrope.preset.tables import preset_names as preset_names
from isotrope.text.pair_corpus import PairMaker
from isotrope.types import AboveZero, Count, Fraction, NonNegative, Teacher

Probability = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
LearningRate = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
BatchSize = Annotated[int, Field(ge=2, le=1_000_000)]
Length = Annotated[int, Field(ge=3, le=100_000)]
Rounds = Annotated[int, Field(ge=1, le=64)]
Names = Annotated[list[str], Field(min_length=1)]
Widths = Annotated[list[Count], Field(min_length=1)]


class _Record(BaseModel, extra="forbid", frozen=True):
    """A table of a preset."""


class LoraSettings(_Record):
    """``[encoder.lora]``: an adapter is trained instead of the encoder's weights; see
    isotrope.encoder.adapters.
    """

    rank: Count = 8  # this and the next two: peft's own defaults
    alpha: Count = 8
    dropout: Probability = 0.0
    # Layers, by the ends of their names; None: peft's.
    targets: Names | None = None
    save: Literal["merged", "adapter"] = "merged"  # a whole model, or the adapter's files alone


class EncoderSettings(_Record):
    """``[encoder]``: where to start, and how a sentence is read.

    Where None is the default, the key is in no record unless it is set.
    """

    backbone: str
    # What is made of the backbone before training; see isotrope.encoder.student.
    student: str | None = None
    # None: the model's own, or mean.
    pooling: Literal[tuple(POOLINGS)] | None = None  # type: ignore[valid-type]
    dropout: Probability | None = 0.1  # None: as the checkpoint says
    normalize: bool | None = None  # None: as the model has it
    prompt: str | None = None  # words before every text; None: the model's default prompt
    prompt_name: str | None = None  # the same, by its name in the model
    # Words before positives and hard negatives; None: as before all texts.
    positive_prompt: str | None = None
    bidirectional: bool | None = None  # a decoder's tokens see those after them; None: no
    lora: LoraSettings | None = None  # None: all weights are trained


class TrainSettings(_Record):
    """``[train]``: the schedule and the selection.

    Where None is the default, the key is in no record unless it is set.
    """

    epochs: AboveZero = 1.0
    batch_size: BatchSize = 64  # a process
    # Sentences through the encoder at a time, each pass counted; None: all.
    mini_batch_size: Count | None = None
    accumulation: Count = 1  # batches an optimizer step; negatives stay within a batch
    learning_rate: LearningRate = 3e-5
    weight_decay: NonNegative = 0.0
    warmup: Fraction = 0.0  # of all steps
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    max_grad_norm: AboveZero = 1.0  # of encoder and head together
    max_length: Length = 32  # tokens, while training
    # auto: bf16 where the GPU has it, else fp32.
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    eval_steps: Count = 250
    save_steps: Count = 500
    # The mean of these dev sets chooses the checkpoint; [] keeps the last.
    select: list[str] = ["stsb-dev"]
    patience: Count | None = None  # stop after so many evaluations without a better one
    gradient_checkpointing: bool = False  # less memory, a third more time
    # Matryoshka: widths that each have the loss.
    dims: Widths | None = None
    keep_head: bool | None = None  # the view steps become part of the model; None: no
    compile: bool | None = None  # the layers, by torch.compile: for GPUs; None: no


RECORDS: dict[str, type[_Record]] = {
    "encoder": EncoderSettings,
    "encoder.lora": LoraSettings,
    "train": TrainSettings,
}
RESERVED = {"order", "passes"}  # keys of a stage that are not named tables
# Fields of the log, beside the terms.
LOG_FIELDS = {"step", "epoch", "loss", "score", "grad_norm", "learning_rate"}
SELF = "self"  # instance weights from the student's own cosines need no teacher


class PairSettings(_Record, extra="allow"):
    """``[pairs]``: how documents are read. All other keys there are options of the component."""

    kind: str
    rounds: Rounds | None = None  # pairs of each document; None: one


@dataclass(frozen=True)
class ComponentEntry:
    """A component in a preset. Its table is ``[stage.label]``, that of pairs is ``[pairs]``."""

    stage: str
    label: str
    kind: str
    options: TomlTable
    on: Any = None  # the passes that a token step or a peer is on for

    @property
    def cls(self) -> type:
        """Its class. UserError if there is no such kind."""
        return component_class(self.stage, self.kind)

    @property
    def table(self) -> str:
        """The name of its table in the file."""
        return f"{self.stage}.{self.label}".strip(".")

    def make(self) -> Any:
        """The component, not yet built for a run."""
        return make_component(self.stage, self.kind, self.options, where=self.table)


class Preset(_Record):
    """Everything that a run is, but for its text, its seed and its place."""

    name: str
    description: str = ""
    encoder: EncoderSettings
    train: TrainSettings = TrainSettings()
    pairs: PairSettings | None = None  # the text is documents, and pairs are drawn from them
    tokens: TomlTable = {}
    peers: TomlTable | None = None  # None: no, and in no record
    views: TomlTable = {}
    scores: TomlTable = {}
    terms: TomlTable = {}
    teachers: TomlTable = {}

    def parts(self, *stages: str) -> list[ComponentEntry]:
        """The components of some stages, or of all, in order."""
        entries: list[ComponentEntry] = []
        if self.pairs and (not stages or READING in stages):
            options = dict(self.pairs.model_extra or {})
            entry = ComponentEntry(READING, "", self.pairs.kind, options)
            entries.append(entry)
        for stage in STAGES:
            if not stages or stage in stages:
                entries += self._entries(stage)
        return entries

    def _entries(self, stage: str) -> Iterator[ComponentEntry]:
        """A component's kind is its table's name by default; a teacher's is a mixture."""
        tables = getattr(self, stage) or {}
        _check_passes(stage, tables)
        for label in _ordered_labels(stage, tables):
            _check_table(stage, label, tables[label])
            options = dict(tables[label])
            default_kind = "mixture" if stage == "teachers" else label
            kind = str(options.pop("kind", default_kind))
            on = None
            if stage in OF_PASSES:
                on = options.pop("on", [1])
            yield ComponentEntry(stage, label, kind, options, on)

    @property
    def head(self) -> list[str]:
        """The view steps that ``train.keep_head`` keeps, in order; none without that key."""
        if not self.train.keep_head:
            return []
        return [entry.label for entry in self.parts("views")]

    def toml(self) -> str:
        """The resolved preset, which ``read_preset`` takes again."""
        settings = self.model_dump(exclude_none=True, exclude={"name"})
        used = {}
        for key, value in settings.items():
            if value not in ({}, ""):
                used[key] = value
        text = tomli_w.dumps(used)
        # Lists on one line, so that a comment fits after them.
        return re.sub(r"\[\n    (.*?),\n\]", _on_one_line, text, flags=re.DOTALL)


def _on_one_line(toml_list: re.Match[str]) -> str:
    items = toml_list[1].replace("\n    ", " ")
    return f"[{items}]"


def _check_passes(stage: str, tables: TomlTable) -> None:
    if "passes" not in tables:
        return
    passes = tables["passes"]
    is_count = type(passes) is int and passes >= 1
    if stage != "views" or not is_count:
        problem = f"{stage}.passes = {passes!r} is not possible"
        remedy = "write views.passes, a whole number of at least 1"
        raise UserError(problem, remedy, code="impossible-passes")


def _ordered_labels(stage: str, tables: TomlTable) -> list[str]:
    labels = [key for key in tables if key not in RESERVED]
    order: list[str] = tables.get("order", labels)
    is_list = isinstance(order, list)
    if not is_list or sorted(map(str, order)) != sorted(labels):
        problem = f"{stage}.order = {order!r}"
        remedy = f"name each of {labels} once"
        raise UserError(problem, remedy, code="impossible-order")
    return order


def _check_table(
    stage: str,
    label: str,
    table: Any,
) -> None:
    if not isinstance(table, Mapping):
        problem = f"{stage}.{label} = {table!r} is an unknown key"
        remedy = f"write a table [{stage}.{label}]"
        raise UserError(problem, remedy, code="unknown-key")
    if stage == "terms" and label in LOG_FIELDS:
        problem = f"terms.{label}: the run's log has a field of that name"
        raise UserError(problem, "choose another label", code="reserved-label")


def read_preset(
    name: str | Path,
    overrides: Iterable[str] = (),  # key=value
) -> Preset:
    """A shipped preset by name, or the user's by path (.toml), with overrides.

    Raises:
        UserError: unknown preset, broken TOML, unknown key, impossible value; names file, key,
            value and remedy. Nothing of a third party is imported: for its components, see
            `check_runnable`.
    """
    own_name = str(name)
    tables = resolved_tables(own_name, overrides)
    if own_name.endswith(".toml"):
        own_name = Path(own_name).stem
    tables.setdefault("name", own_name)
    try:
        preset = Preset(**tables)
    except ValidationError as error:
        mistake = explain(error, Preset, keys=_known_keys(tables))
        problem = f"preset {name}: {mistake.problem}"
        raise UserError(problem, mistake.remedy, code=mistake.code) from error
    if not preset.parts("terms"):
        problem = f"preset {name} has no terms, so no loss"
        raise UserError(problem, "add one, such as [terms.infonce]", code="no-terms")
    _check_components(preset, third_parties=False)
    return preset


def _known_keys(tables: TomlTable) -> list[str]:
    """The keys that can be set: of the records, and those that the preset's components have."""
    keys = []
    for table, record in RECORDS.items():
        keys += [f"{table}.{key}" for key in record.model_fields]
    for stage in (*STAGES, READING):
        of_stage = tables.get(stage)
        if isinstance(of_stage, Mapping):
            keys += leaves(of_stage, f"{stage}.")
    return keys


def check_runnable(preset: Preset) -> None:
    """What is checked when a run starts: classes named as ``module:Class``, which are imported, and
    a head to keep.
    """
    _check_components(preset, third_parties=True)
    if preset.train.keep_head:
        _check_head(preset)


def _check_head(preset: Preset) -> None:
    """Check that the view steps can become part of the model."""
    steps = [entry.cls for entry in preset.parts("views")]
    can_be_kept = all(hasattr(step, "layers") for step in steps)
    if not steps or not can_be_kept:
        problem = f"train.keep_head = true, and {preset.name} has no head that can be kept"
        remedy = "leave it out, or choose a head such as [views.mlp]"
        raise UserError(problem, remedy, code="no-head")


def _check_components(preset: Preset, third_parties: bool) -> None:
    for entry in preset.parts():
        if (THIRD_PARTY in entry.kind) != third_parties:
            continue
        made = entry.make()
        teacher = getattr(made, "teacher", SELF)
        if teacher != SELF and teacher not in preset.teachers:
            problem = f"{entry.table}.teacher = {teacher!r}, which does not exist"
            remedy = f"add a table [teachers.{teacher}]"
            raise UserError(problem, remedy, code="unknown-teacher")


def pair_maker(preset: Preset) -> tuple[PairMaker, int]:
    """The component that draws pairs, and how many it draws of each document."""
    (entry,) = preset.parts(READING)
    rounds = preset.pairs.rounds if preset.pairs else None
    return entry.make(), rounds or 1


def open_teachers(preset: Preset, context: BuildContext) -> dict[str, Teacher]:
    """The preset's teachers, their embeddings in the cache: long, the first time."""
    teachers = _by_label(preset, "teachers")
    return built(teachers, context)  # type: ignore[no-any-return]


def teacher_specs(preset: Preset, context: BuildContext) -> dict[str, TeacherSpec]:
    """What is known of the preset's teachers before `open_teachers`."""
    specs = {}
    for label, settings in _by_label(preset, "teachers").items():
        specs[label] = TeacherSpec(settings, context)
    return specs


def _by_label(preset: Preset, stage: str) -> dict[str, Any]:
    """The components of a stage, not yet built, in order."""
    return {entry.label: entry.make() for entry in preset.parts(stage)}


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
    specs = teacher_specs(preset, context)
    context = replace(context, teachers=specs)
    return Objective(
        model,
        terms=_by_label(preset, "terms"),
        tokens=[(entry.make(), entry.on) for entry in preset.parts("tokens")],
        peers=[(entry.make(), entry.on) for entry in preset.parts("peers")],
        views=[entry.make() for entry in preset.parts("views")],
        scores=[entry.make() for entry in preset.parts("scores")],
        passes=preset.views.get("passes", 2),
        teachers=teachers,
        dims=preset.train.dims or (),
        seed=seed,
        context=context,
        mini_batch_size=preset.train.mini_batch_size,
    )
