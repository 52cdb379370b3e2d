"""A method is data: TOML → checked records → an Objective and the settings of a run."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sentence_transformers import SentenceTransformer

from isotrope.encoder.pooling import LAYERS
from isotrope.errors import UserError
from isotrope.objective.objective import Objective
from isotrope.objective.registry import STAGES, check, component, explain, kinds, needs_dim
from isotrope.teachers import Context
from isotrope.types import AboveZero, Count, Fraction, NonNegative, Teacher

Table = dict[str, Any]
PROBABILITY = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
LENGTH = Annotated[int, Field(ge=3, le=100_000)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EncoderSettings(_Record):
    """``[encoder]``: where to start, and how a sentence is read."""

    backbone: str
    pooling: Literal[tuple(LAYERS)] | None = None  # type: ignore[valid-type]  # None: the model's own, or mean
    dropout: PROBABILITY | None = 0.1  # None: as the checkpoint says
    normalize: bool | None = None  # None: as the model has it


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
    max_length: LENGTH = 32  # tokens, while training
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"  # auto: bf16 where the GPU has it, else fp32
    eval_steps: Count = 250
    save_steps: Count = 500
    select: list[str] = ["stsb-dev"]  # the mean of these dev sets chooses the checkpoint; [] keeps the last
    patience: Count | None = None  # stop after so many evaluations without a better one
    gradient_checkpointing: bool = False  # less memory, a third more time
    compile: bool | None = None  # the layers, by torch.compile: for GPUs; None: no, and no word of it in records


class Preset(_Record):
    """Everything that a run is, but for its text, its seed and its place."""

    name: str
    description: str = ""
    encoder: EncoderSettings
    train: TrainSettings = TrainSettings()
    tokens: Table = {}
    views: Table = {}
    scores: Table = {}
    terms: Table = {}
    teachers: Table = {}

    def toml(self) -> str:
        """The resolved preset, which ``read_preset`` takes again."""
        settings = self.model_dump(exclude_none=True, exclude={"name"})
        kept = {key: value for key, value in settings.items() if value not in ({}, "")}
        lists = re.compile(r"\[\n    (.*?),\n\]", flags=re.DOTALL)  # on one line, so that a comment fits behind
        return lists.sub(lambda m: "[" + m[1].replace("\n    ", " ") + "]", tomli_w.dumps(kept))


def preset_names() -> list[str]:
    """The presets that come with isotrope."""
    return sorted(
        path.name.removesuffix(".toml") for path in files("isotrope.presets").iterdir() if path.name.endswith(".toml")
    )


def read_preset(name: str | Path, overrides: Iterable[str] = ()) -> Preset:
    """A shipped preset by name, or the user's by path (.toml), with ``key=value`` overrides.

    Raises:
        UserError: unknown preset, broken TOML, unknown key, impossible value; names file, key, value and remedy.
    """
    tables = _resolve(str(name), [])
    for override in overrides:
        _merge(tables, _parse_override(override))
    tables.setdefault("name", Path(name).stem if str(name).endswith(".toml") else str(name))
    try:
        preset = Preset(**tables)
    except ValidationError as error:
        table = ".".join(map(str, error.errors()[0]["loc"][:-1]))
        records: dict[str, type[BaseModel]] = {"encoder": EncoderSettings, "train": TrainSettings}
        mistake = explain(error, "", list(records.get(table, Preset).model_fields))
        raise UserError(f"preset {name}: {mistake.problem}", mistake.remedy) from error
    if not _named(preset.terms, "terms"):
        raise UserError(f"preset {name} has no terms, so no loss", "add one, such as [terms.infonce]")
    for stage in STAGES:
        for label, kind, options in _named(getattr(preset, stage), stage):
            with _named_by_table(stage, label, kind):
                asked = check(stage, kind, options, later={"dim"}).get("teacher", SELF)
            if asked != SELF and asked not in preset.teachers:
                raise UserError(
                    f"{stage}.{label}.teacher = {asked!r}, which is none", f"add a table [teachers.{asked}]"
                )
    return preset


def open_teachers(preset: Preset, context: Context) -> dict[str, Teacher]:
    """The preset's teachers, their embeddings in the cache: long, the first time."""
    named = _named(preset.teachers, "teachers")
    return {label: _component("teachers", label, kind, options).open(context) for label, kind, options in named}


def build_objective(
    preset: Preset, model: SentenceTransformer, seed: int = 0, teachers: Mapping[str, Teacher] | None = None
) -> Objective:
    """The preset's objective for this student; its weights are drawn from torch's generator."""
    dim = model.get_embedding_dimension()

    def build(stage: str, table: Table) -> list[tuple[str, Any]]:
        return [(label, _component(stage, label, kind, options, dim)) for label, kind, options in _named(table, stage)]

    tokens = [(step, preset.tokens[label].get("on", [1])) for label, step in build("tokens", preset.tokens)]
    return Objective(
        model,
        dict(build("terms", preset.terms)),
        tokens=tokens,
        views=[step for _, step in build("views", preset.views)],
        scores=[step for _, step in build("scores", preset.scores)],
        passes=preset.views.get("passes", 2),
        teachers=teachers,
        seed=seed,
        mini_batch_size=preset.train.mini_batch_size,
    )


def _component(stage: str, label: str, kind: str, options: Table, dim: int | None = None) -> Any:
    """The component of ``[stage.label]``."""
    extra = {"dim": dim} if needs_dim(stage, kind) else {}
    with _named_by_table(stage, label, kind):
        return component(stage, kind, **options, **extra)


@contextmanager
def _named_by_table(stage: str, label: str, kind: str) -> Iterator[None]:
    """A mistake in a component's options is named by the preset's table."""
    try:
        yield
    except UserError as error:
        raise UserError(error.problem.replace(f"{stage}.{kind}.", f"{stage}.{label}."), error.remedy) from error


SELF = "self"  # instance weights from the student's own cosines need no teacher
RESERVED = {"order", "passes"}  # keys of a stage that are not named tables


def _named(table: Table, stage: str) -> list[tuple[str, str, Table]]:
    """A stage's (label, kind, options) in order."""
    labels = [key for key in table if key not in RESERVED]
    for label in labels:
        if not isinstance(table[label], Mapping):
            raise UserError(f"{stage}.{label} = {table[label]!r} is an unknown key", f"write a table [{stage}.{label}]")
    order = table.get("order", labels)
    if not isinstance(order, list) or sorted(map(str, order)) != sorted(labels):
        raise UserError(f"{stage}.order = {order!r}", f"name each of {labels} once")
    passes = table.get("passes", 2)
    if stage != "views" and "passes" in table:
        raise UserError(f"{stage}.passes is an unknown key", "passes belong to [views]")
    if not isinstance(passes, int) or not 1 <= passes <= 64:
        raise UserError(f"views.passes = {passes!r} is not possible", "choose a whole number from 1 to 64")
    copies = [table[label].get("copies", 1) for label in labels]
    if stage == "views" and passes == 1 and all(count == 1 for count in copies):
        remedy = "choose 2 or more, or a view step with copies"
        raise UserError("views.passes = 1 leaves one view, with nothing to compare it with", remedy)
    for label in labels:
        if not isinstance(kind := table[label].get("kind", label), str):
            raise UserError(
                f"{stage}.{label}.kind = {kind!r} is not a name", f"choose one of {', '.join(kinds(stage))}"
            )
    skip = {"kind"} | ({"on"} if stage == "tokens" else set())
    return [
        (label, _kind(table[label], label, stage), {k: v for k, v in table[label].items() if k not in skip})
        for label in order
    ]


def _kind(table: Table, label: str, stage: str) -> str:
    """A table's kind is its own name, but for teachers: those are mixtures, if only of one model."""
    return str(table.get("kind", "mixture" if stage == "teachers" else label))


def _resolve(name: str, seen: Sequence[str]) -> Table:
    """The preset's tables over those that it extends."""
    if name in seen:
        raise UserError(f"preset {name} extends itself ({' → '.join([*seen, name])})", "break the circle")
    if name.endswith(".toml"):
        path: Any = Path(name)
        if not path.is_file():
            raise UserError(f"preset {name} does not exist", "check the path")
    elif name in preset_names():
        path = files("isotrope.presets").joinpath(f"{name}.toml")
    else:
        raise UserError(f"preset {name!r} is unknown", f"choose one of {', '.join(preset_names())}, or a .toml file")
    try:
        own = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"preset {name} is not valid TOML ({error})", "correct that line") from error
    parent = own.pop("extends", None)
    if not isinstance(parent, str | None):
        raise UserError(f"preset {name}: extends = {parent!r} is not possible", "name one preset, or one .toml file")
    base = _resolve(parent, [*seen, name]) if parent else {}
    base.pop("description", None)
    return _merge(base, own)


def _merge(base: Table, top: Table) -> Table:
    """Lay ``top`` over ``base``, in place; ``name = false`` takes an inherited table away, out of the order too."""
    for key, value in top.items():
        if value is False and isinstance(base.get(key), dict):
            del base[key]
            if key in base.get("order", []):
                base["order"] = [label for label in base["order"] if label != key]
        elif isinstance(value, dict) and isinstance(base.get(key), dict):
            _merge(base[key], value)
        else:
            base[key] = value
    return base


def _parse_override(text: str) -> Table:
    """``train.batch_size=32`` -> {"train": {"batch_size": 32}}; a value that is not TOML is a string."""
    key, sign, value = text.partition("=")
    if not sign or not re.fullmatch(r"\w[\w-]*(\.\w[\w-]*)*", key.strip()):
        raise UserError(f"--set {text}: not of the form key=value", "write, for example, --set train.batch_size=32")
    try:
        parsed: Any = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    for part in reversed(key.strip().split(".")):
        parsed = {part: parsed}
    return parsed  # type: ignore[no-any-return]
