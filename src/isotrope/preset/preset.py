"""A method is data: TOML → checked records → an Objective and the settings of a run."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import tomli_w
from pydantic import BaseModel, Field, ValidationError
from sentence_transformers import SentenceTransformer

from isotrope.components.refusals import OF_PASSES
from isotrope.components.registry import (
    READING,
    STAGES,
    THIRD_PARTY,
    component,
    component_class,
    explain,
)
from isotrope.contract.context import BuildContext, Unopened, built
from isotrope.encoder.pooling import LAYERS
from isotrope.errors import UserError
from isotrope.objective.objective import Objective
from isotrope.preset.tables import TomlTable, leaves, resolved_tables
from isotrope.preset.tables import preset_names as preset_names
from isotrope.text.pair_corpus import PairMaker
from isotrope.types import AboveZero, Count, Fraction, NonNegative, Teacher

PROBABILITY = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


class _Record(BaseModel, extra="forbid", frozen=True): ...


class LoraSettings(_Record):
    """``[encoder.lora]``: an adapter is trained instead of the encoder's weights; see
    isotrope.encoder.adapters.
    """

    rank: Count = 8  # this and the next two: peft's own defaults
    alpha: Count = 8
    dropout: PROBABILITY = 0.0
    # layers, by the ends of their names; None: peft's
    targets: Annotated[list[str], Field(min_length=1)] | None = None
    save: Literal["merged", "adapter"] = "merged"  # a whole model, or the adapter's files alone


class EncoderSettings(_Record):
    """``[encoder]``: where to start, and how a sentence is read."""

    backbone: str
    # what is made of the backbone before training; see isotrope.encoder.student
    student: str | None = None
    pooling: Literal[tuple(LAYERS)] | None = None  # type: ignore[valid-type]  # None: the model's own, or mean
    dropout: PROBABILITY | None = 0.1  # None: as the checkpoint says
    normalize: bool | None = None  # None: as the model has it
    prompt: str | None = None  # words before every text; None: the model's default prompt
    prompt_name: str | None = None  # the same, by its name in the model
    # words before positives and hard negatives; None: as before all texts
    positive_prompt: str | None = None
    # a decoder's tokens see those behind; None: no, and no word of it in records
    bidirectional: bool | None = None
    lora: LoraSettings | None = None  # None: all weights are trained, and no word of it in records


class TrainSettings(_Record):
    """``[train]``: the schedule and the selection."""

    epochs: AboveZero = 1.0
    batch_size: Annotated[int, Field(ge=2, le=1_000_000)] = 64  # a process
    # sentences through the encoder at a time, each pass counted; None: all
    mini_batch_size: Count | None = None
    accumulation: Count = 1  # batches an optimizer step; negatives stay within a batch
    learning_rate: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 3e-5
    weight_decay: NonNegative = 0.0
    warmup: Fraction = 0.0  # of all steps
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    max_grad_norm: AboveZero = 1.0  # of encoder and head together
    max_length: Annotated[int, Field(ge=3, le=100_000)] = 32  # tokens, while training
    # auto: bf16 where the GPU has it, else fp32
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    eval_steps: Count = 250
    save_steps: Count = 500
    # the mean of these dev sets chooses the checkpoint; [] keeps the last
    select: list[str] = ["stsb-dev"]
    patience: Count | None = None  # stop after so many evaluations without a better one
    gradient_checkpointing: bool = False  # less memory, a third more time
    # Matryoshka: widths that each have the loss
    dims: Annotated[list[Count], Field(min_length=1)] | None = None
    # the view steps become part of the model; None: no, and no word of it in records
    keep_head: bool | None = None
    # the layers, by torch.compile: for GPUs; None: no, and no word of it in records
    compile: bool | None = None


RECORDS: dict[str, type[_Record]] = {
    "encoder": EncoderSettings,
    "encoder.lora": LoraSettings,
    "train": TrainSettings,
}
RESERVED = {"order", "passes"}  # keys of a stage that are not named tables
# fields of the log, beside the terms
LOG_FIELDS = {"step", "epoch", "loss", "score", "grad_norm", "learning_rate"}
SELF = "self"  # instance weights from the student's own cosines need no teacher


class PairSettings(_Record, extra="allow"):
    """``[pairs]``: how documents are read. What else stands there are options of the component."""

    kind: str
    rounds: Annotated[int, Field(ge=1, le=64)] | None = None  # pairs of each document; None: one


class Part(NamedTuple):
    """A component as a preset names it. Its table is ``[stage.label]``, that of pairs ``[pairs]``."""

    stage: str
    label: str
    kind: str
    options: TomlTable
    on: Any = None  # the passes that a token step or a peer is on for

    @property
    def cls(self) -> type:
        return component_class(self.stage, self.kind)

    def make(self) -> Any:
        """The component, not yet built for a run."""
        with _as_written([self]):
            return component(self.stage, self.kind, **self.options)


class Preset(_Record):
    """Everything that a run is, but for its text, its seed and its place."""

    name: str
    description: str = ""
    encoder: EncoderSettings
    train: TrainSettings = TrainSettings()
    pairs: PairSettings | None = None  # the text is documents, and pairs are drawn from them
    tokens: TomlTable = {}
    peers: TomlTable | None = None  # None: no, and no word of it in records
    views: TomlTable = {}
    scores: TomlTable = {}
    terms: TomlTable = {}
    teachers: TomlTable = {}

    def parts(self, *stages: str) -> list[Part]:
        """The components of some stages, or of all, in order."""
        found = [
            part for stage in STAGES if stage in (stages or STAGES) for part in self._parts(stage)
        ]
        if self.pairs and (not stages or READING in stages):
            return [Part(READING, "", self.pairs.kind, dict(self.pairs.model_extra or {})), *found]
        return found

    def _parts(self, stage: str) -> Iterator[Part]:
        """A table's kind is its own name; that of a teacher is a mixture."""
        tables = getattr(self, stage) or {}
        passes = tables.get("passes", 2)
        if "passes" in tables and (stage != "views" or type(passes) is not int or passes < 1):
            remedy = "write views.passes, a whole number of at least 1"
            raise UserError(f"{stage}.passes = {passes!r} is not possible", remedy)
        labels = [key for key in tables if key not in RESERVED]
        order = tables.get("order", labels)
        if not isinstance(order, list) or sorted(map(str, order)) != sorted(labels):
            raise UserError(f"{stage}.order = {order!r}", f"name each of {labels} once")
        for label in order:
            if not isinstance(tables[label], Mapping):
                unknown = f"{stage}.{label} = {tables[label]!r} is an unknown key"
                raise UserError(unknown, f"write a table [{stage}.{label}]")
            if stage == "terms" and label in LOG_FIELDS:
                raise UserError(
                    f"terms.{label}: the run's log has a field of that name", "choose another label"
                )
            options = dict(tables[label])
            kind = str(options.pop("kind", "mixture" if stage == "teachers" else label))
            on = options.pop("on", [1]) if stage in OF_PASSES else None
            yield Part(stage, label, kind, options, on)

    @property
    def head(self) -> list[str]:
        """The view steps that ``train.keep_head`` keeps, in order; none without that key."""
        return [part.label for part in self.parts("views") if self.train.keep_head]

    def toml(self) -> str:
        """The resolved preset, which ``read_preset`` takes again."""
        settings = self.model_dump(exclude_none=True, exclude={"name"})
        kept = {key: value for key, value in settings.items() if value not in ({}, "")}
        # on one line, so that a comment fits behind
        lists = re.compile(r"\[\n    (.*?),\n\]", flags=re.DOTALL)
        return lists.sub(lambda m: "[" + m[1].replace("\n    ", " ") + "]", tomli_w.dumps(kept))


def read_preset(name: str | Path, overrides: Iterable[str] = ()) -> Preset:
    """A shipped preset by name, or the user's by path (.toml), with ``key=value`` overrides.

    Raises:
        UserError: unknown preset, broken TOML, unknown key, impossible value; names file, key,
            value and remedy. Nothing of a third party is imported: for its components, see
            `check_runnable`.
    """
    tables = resolved_tables(str(name), overrides)
    tables.setdefault("name", Path(name).stem if str(name).endswith(".toml") else str(name))
    try:
        preset = Preset(**tables)
    except ValidationError as error:
        mistake = explain(error, Preset, keys=_keys(tables))
        raise UserError(f"preset {name}: {mistake.problem}", mistake.remedy) from error
    if not preset.parts("terms"):
        raise UserError(
            f"preset {name} has no terms, so no loss", "add one, such as [terms.infonce]"
        )
    _check_parts(preset, third_parties=False)
    return preset


def _keys(tables: TomlTable) -> list[str]:
    """The keys that can be set: of the records, and those that the preset's components have."""
    given = {
        stage: tables[stage]
        for stage in (*STAGES, READING)
        if isinstance(tables.get(stage), Mapping)
    }
    return [
        f"{table}.{key}" for table, record in RECORDS.items() for key in record.model_fields
    ] + [*leaves(given)]


def check_runnable(preset: Preset) -> None:
    """What is checked when a run starts: classes named as ``module:Class``, which are imported, and
    a head to keep.
    """
    _check_parts(preset, third_parties=True)
    without = [part.label for part in preset.parts("views") if not hasattr(part.cls, "layers")]
    if preset.train.keep_head and (without or not preset.head):
        why = (
            f"views.{without[0]} has no method layers()"
            if without
            else f"{preset.name} has no head"
        )
        raise UserError(
            f"train.keep_head = true, and {why}",
            "leave it out, or choose a head such as [views.mlp]",
        )


def _check_parts(preset: Preset, third_parties: bool) -> None:
    for part in preset.parts():
        if (THIRD_PARTY in part.kind) == third_parties:
            asked = getattr(part.make(), "teacher", SELF)
            if asked != SELF and asked not in preset.teachers:
                problem = f"{part.stage}.{part.label}.teacher = {asked!r}, which does not exist"
                raise UserError(problem, f"add a table [teachers.{asked}]")


def pair_maker(preset: Preset) -> tuple[PairMaker, int]:
    """The component that draws pairs, and how many it draws of each document."""
    (part,) = preset.parts(READING)
    return part.make(), preset.pairs.rounds or 1 if preset.pairs else 1


def open_teachers(preset: Preset, context: BuildContext) -> dict[str, Teacher]:
    """The preset's teachers, their embeddings in the cache: long, the first time."""
    return {part.label: built(part.make(), context) for part in preset.parts("teachers")}


def unopened_teachers(preset: Preset, context: BuildContext) -> dict[str, Unopened]:
    """What is known of the preset's teachers before `open_teachers`."""
    return {part.label: Unopened(part.make(), context) for part in preset.parts("teachers")}


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
    parts: dict[str, Any] = {
        stage: [(p.make(), p.on) for p in preset.parts(stage)] for stage in OF_PASSES
    }
    parts |= {stage: [part.make() for part in preset.parts(stage)] for stage in ("views", "scores")}
    parts["terms"] = {part.label: part.make() for part in preset.parts("terms")}
    context = replace(context, teachers=unopened_teachers(preset, context))
    with _as_written(preset.parts()):
        return Objective(
            model,
            **parts,
            passes=preset.views.get("passes", 2),
            teachers=teachers,
            dims=preset.train.dims or (),
            seed=seed,
            context=context,
            mini_batch_size=preset.train.mini_batch_size,
        )


@contextmanager
def _as_written(parts: Iterable[Part]) -> Iterator[None]:
    """A mistake in a component's options is named by the preset's table, which may not be called
    after its kind.
    """
    try:
        yield
    except UserError as error:
        said = [error.problem, error.remedy]
        for part in parts:
            kind, table = (
                rf"\b{part.stage}\.{re.escape(part.kind)}\b",
                f"{part.stage}.{part.label}".strip("."),
            )
            said = [re.sub(kind, table, each) for each in said]
        raise UserError(*said) from error
