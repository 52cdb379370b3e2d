"""What a run reads, and its identity: everything that decides the result, and nothing else."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from isotrope.encoder.checksum import files_checksum
from isotrope.encoder.locate import is_bare, locate
from isotrope.encoder.prompts import Prompts
from isotrope.encoder.student import check_student
from isotrope.errors import UserError
from isotrope.evaluation.sets.labels import Labels
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.evaluation.sts import SimilaritySets
from isotrope.preset.preset import Preset, check_runnable, pair_maker, preset_names, read_preset
from isotrope.preset.sources import flat
from isotrope.store.cache import cache_folder
from isotrope.text import TextSource
from isotrope.text.corpus import Texts
from isotrope.text.pair_corpus import open_pairs
from isotrope.training.pairs import DevSet, evaluation_pairs
from isotrope.training.processes import process_count

STUDENT = "initial"  # as a teacher's model: the student before training
# Keys that name models: the identity has checksums of their files instead.
MODEL_KEYS = re.compile(r"encoder\.backbone|teachers\..*\.models?")


@dataclass(frozen=True)
class RunRequest:
    """A training as `isotrope.train` is asked for it, with its text opened and its labels read.
    Models are names or folders.
    """

    text: TextSource
    preset: str | Path | None = None
    model: str | None = None
    labels: str | Labels | None = None
    dev: str | Sequence[str] | None = None
    data: str | Path | None = None
    seed: int = 0
    max_texts: int | None = None
    overrides: Sequence[str] = ()
    prompt: str | None = None
    prompt_name: str | None = None
    positive_prompt: str | None = None
    teachers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    held_out: int = 0
    log_to: Sequence[str] = ()


@dataclass(frozen=True)
class RunInputs:
    """What a run reads."""

    text: TextSource  # as it was given; a preset with ``[pairs]`` reads it as documents
    preset: Preset  # the resolved one
    corpus: Texts  # what is trained on
    # Dev set -> pairs or tasks that choose the checkpoint.
    selecting: Mapping[str, DevSet]
    judging: SimilaritySets  # task -> part -> pairs that judge the result
    searched: RetrievalSet | None  # queries that judge it instead
    seed: int
    max_texts: int | None
    held_out: int
    log_to: Sequence[str]
    is_chosen: bool  # whether the preset was chosen for the model, as none was named
    identity: Mapping[str, Any]  # what ``job.json`` holds


def read_inputs(request: RunRequest) -> RunInputs:
    """Read the preset, the pairs and the text, and take checksums of the models, of which none is
    loaded.
    """
    preset = resolved_preset(request)
    _check_preset(preset)
    refuse_without_effect(request.text, preset, request.held_out)
    judging, selecting = evaluation_pairs(
        request.dev,
        preset.train.select,
        request.labels,
        request.data or os.environ.get("ISOTROPE_DATA"),
    )
    corpus = training_text(request.text, preset, request.seed, request.held_out)
    searched = request.labels if isinstance(request.labels, RetrievalSet) else None
    return RunInputs(
        text=request.text,
        preset=preset,
        corpus=corpus,
        selecting=selecting,
        judging=judging,
        searched=searched,
        seed=request.seed,
        max_texts=request.max_texts,
        held_out=request.held_out,
        log_to=request.log_to,
        is_chosen=request.preset is None and request.model is not None,
        identity={
            **_identity_of_preset(preset),
            "documents": corpus.key,
            "dev": {name: pairs.checksum() for name, pairs in selecting.items()},
            "labels": _label_checksums(judging, searched),
            "seed": request.seed,
            "sentences": request.max_texts,
        },
    )


def _identity_of_preset(preset: Preset) -> dict[str, Any]:
    """The settings, the models by their files, and the number of processes."""
    settings = flat(preset)
    keys = {key: value for key, value in settings.items() if not MODEL_KEYS.fullmatch(key)}
    processes = process_count()
    # Dropout and token steps draw. Without them the number of processes does not matter, and the
    # batch of all of them together decides.
    if preset.encoder.dropout == 0 and not preset.tokens:
        keys["train.batch_size"] *= processes
        processes = 1
    teachers: dict[str, list[str]] = {}
    for label, table in preset.teachers.items():
        teachers[label] = [
            name if name == STUDENT else files_checksum(name) for name in _model_names(table)
        ]
    return {
        "preset": keys,
        "model": files_checksum(preset.encoder.backbone),
        "teachers": teachers,
        "processes": processes,
    }


def _label_checksums(judging: SimilaritySets, searched: RetrievalSet | None) -> dict[str, str]:
    if searched is not None:
        return {searched.name: searched.checksum()}
    checksums = {}
    for task, parts in judging.items():
        for name, pairs in parts.items():
            checksums[f"{task}/{name}"] = pairs.checksum()
    return checksums


def resolved_preset(request: RunRequest) -> Preset:
    """The preset, or the one that fits the model, with the overrides and the teachers."""
    own_settings = {
        "backbone": request.model,
        "prompt": request.prompt,
        "prompt_name": request.prompt_name,
        "positive_prompt": request.positive_prompt,
    }
    overrides = list(request.overrides)
    for key, value in own_settings.items():
        if value is not None:
            overrides.append(f"encoder.{tomli_w.dumps({key: value})}")
    preset = read_preset(request.preset or _fitting_preset(request.model), overrides)
    return preset.model_copy(update={"teachers": _with_teachers(preset, request.teachers)})


def _fitting_preset(model: str | None) -> str:
    """SimCSE for a raw language model. It would spoil a model that has its own pooling."""
    if model is None or model in preset_names() or is_bare(model):
        return "simcse"
    return "adapt"


def _with_teachers(preset: Preset, teachers: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The preset's tables of teachers, with other models: by the label of a teacher, or by the name
    of one of its models.
    """
    known = set(preset.teachers)
    for table in preset.teachers.values():
        known.update(table.get("models", ()))
    for name in teachers:
        if name not in known:
            problem = f"--teacher {name}: the preset {preset.name} has no such teacher"
            remedy = f"it has: {', '.join(sorted(known)) or 'none'}"
            raise UserError(problem, remedy, code="unknown-teacher")

    tables = {}
    for label, table in preset.teachers.items():
        models = list(teachers.get(label, ()))
        if not models:
            for name in table.get("models", ()):
                models += teachers.get(name, [name])
        tables[label] = {**table, "models": models} if models else dict(table)
    return tables


def untrained_teachers(preset: Preset) -> list[str]:
    """The presets among a preset's teachers: they name models that nobody has trained yet."""
    names = _teacher_names(preset)
    return [name for name in dict.fromkeys(names) if name in preset_names()]


def _teacher_names(preset: Preset) -> list[str]:
    return [name for table in preset.teachers.values() for name in _model_names(table)]


def _model_names(table: Mapping[str, Any]) -> list[str]:
    """The models of one teacher."""
    names = [str(name) for name in table.get("models", ())]
    return [*names, str(table["model"])] if "model" in table else names


def _check_preset(preset: Preset) -> None:
    check_runnable(preset)
    backbone = preset.encoder.backbone
    if backbone in preset_names():
        raise _untrained(backbone, "train it, then add --model RUN/model")
    for name in _teacher_names(preset):
        if name in preset_names():
            own = f"or --teacher {name}=RUN/model if you have it"
            raise _untrained(name, f"add --train-teachers to train it first, {own}")
    prompts = Prompts(preset.encoder.prompt, preset.encoder.prompt_name)
    prompts.check(locate(backbone), backbone)
    if preset.encoder.student is not None:
        check_student(preset.encoder.student)


def _untrained(name: str, remedy: str) -> UserError:
    return UserError(
        f"{name} is a preset, which is not trained yet", remedy, code="untrained-preset"
    )


def refuse_without_effect(text: TextSource, preset: Preset, held_out: int = 0) -> None:
    """Refuse columns, splits and held-out documents that the preset does not read."""
    if preset.pairs is None:
        reason = "reads texts, not documents, and positives only from a column"
        unread: dict[str, Any] = {"title_column": text.title_column, "held_out": held_out}
        if not text.positive:
            unread["positive_prompt"] = preset.encoder.positive_prompt
    else:
        reason = "draws its pairs from whole documents"
        names = ("positive", "negatives", "split", "keep_duplicates")
        unread = {name: getattr(text, name) for name in names}
    for name, value in unread.items():
        if value:
            problem = f"{name} has no effect with the preset {preset.name}, which {reason}"
            raise UserError(
                problem, "leave it out, or choose another preset", code="without-effect"
            )


def training_text(text: TextSource, preset: Preset, seed: int = 0, held_out: int = 0) -> Texts:
    """What to train on: the texts as they are, or pairs drawn from documents if the preset has
    ``[pairs]``.
    """
    if preset.pairs is not None:
        maker, rounds = pair_maker(preset)
        cache = cache_folder("pairs")
        return open_pairs(
            text.documents(), maker, cache=cache, rounds=rounds, seed=seed, held_out=held_out
        )
    return text.texts()
