"""The settings of a run, what it reads, and its identity: everything that decides the result, and nothing else."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from isotrope.encoder.checksum import files_checksum
from isotrope.encoder.locate import is_bare, locate
from isotrope.encoder.prompts import Prompts
from isotrope.encoder.student import check_student
from isotrope.errors import UserError
from isotrope.evaluation.sets.domain import Domain
from isotrope.evaluation.sets.labels import Labels
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.evaluation.sts import Sets
from isotrope.preset.preset import Preset, check_head, check_third_parties, pair_maker, preset_names, read_preset
from isotrope.preset.sources import flat
from isotrope.store.cache import cache_folder
from isotrope.store.remote import is_url
from isotrope.text import Opened
from isotrope.text.corpus import Texts, Wanted
from isotrope.text.pair_corpus import open_pairs
from isotrope.text.permutation import RowIds
from isotrope.text.sample import RowOrder
from isotrope.training.pairs import TransferDev, named_pairs
from isotrope.training.processes import process_count
from isotrope.training.sharded import check_fsdp


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Everything that was asked for: see `isotrope.train` for each setting.

    ``corpus`` is opened text, which a preset with ``[pairs]`` reads as documents. Models are names or folders. The
    output is the run's folder (see `isotrope.training.folder.RunFolder`); None: a temporary one.
    """

    corpus: Opened
    output: str | Path | None = None
    preset: str | Path | None = None
    model: str | None = None
    labels: str | Labels | None = None
    dev: str | Sequence[str] | None = None
    data: str | Path | None = None
    seed: int = 0
    sentences: int | None = None
    overrides: Iterable[str] = ()
    prompt: str | None = None
    prompt_name: str | None = None
    positive_prompt: str | None = None
    teachers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    held_out: int = 0
    log_to: Iterable[str] = ()
    restart: bool = False


_BATCH = "train.batch_size"
STUDENT = "initial"  # as a teacher's model: the student before training
WATCHED, WATCHED_SEED = 1000, 0  # sentences for the label-free signals, the same for every seed of a run


@dataclass(frozen=True)
class RunInputs:
    """What a run reads.

    Attributes:
        settings: what was asked for.
        preset: the resolved preset.
        corpus: the text to train on.
        selecting: dev set -> pairs or tasks that choose the checkpoint.
        judging: task -> part -> pairs that judge the result.
        identity: what ``job.json`` holds.
    """

    settings: RunSettings
    preset: Preset
    corpus: Texts
    selecting: Mapping[str, Pairs | TransferDev]
    judging: Sets
    identity: Mapping[str, Any]


def read_inputs(settings: RunSettings) -> RunInputs:
    """Read the preset, the pairs and the text, and take checksums of the models, of which none is loaded."""
    preset = _preset(settings)
    data = settings.data or os.environ.get("ISOTROPE_DATA") or None
    searched = settings.labels if isinstance(settings.labels, Domain) else None
    labels = "none" if isinstance(settings.labels, Domain) else settings.labels
    judging, selecting = named_pairs(settings.dev, preset.train.select, labels, data)
    corpus = training_text(settings, preset)
    keys, processes = _settings_of(preset), process_count()
    # Dropout and token steps draw; an outside loss sees only the batch of its own process. Without them the number of
    # processes does not matter, and the batch of all of them together decides.
    if preset.encoder.dropout == 0 and not preset.loss and not preset.tokens:
        keys[_BATCH], processes = keys[_BATCH] * processes, 1
    identity = {
        "preset": keys,
        "model": files_checksum(preset.encoder.backbone),
        "teachers": {
            label: [model if model == STUDENT else files_checksum(model) for model in _models(table)]
            for label, table in preset.teachers.items()
        },
        "documents": corpus.key,
        "dev": {name: pairs.checksum() for name, pairs in selecting.items()},
        "labels": {f"{task}/{part}": p.checksum() for task, parts in judging.items() for part, p in parts.items()}
        | ({searched.name: searched.checksum()} if searched else {}),
        "seed": settings.seed,
        "sentences": settings.sentences,
        "processes": processes,
    }
    return RunInputs(settings, preset, corpus, selecting, judging, identity)


def _preset(settings: RunSettings) -> Preset:
    """The resolved preset, checked."""
    given = {"backbone": settings.model, "prompt": settings.prompt, "prompt_name": settings.prompt_name}
    given["positive_prompt"] = settings.positive_prompt
    chosen = [f"encoder.{tomli_w.dumps({key: value})}" for key, value in given.items() if value is not None]
    preset = _chosen(settings, chosen)
    check_third_parties(preset)
    check_head(preset)
    check_fsdp(preset)
    backbone = preset.encoder.backbone
    for name in (backbone, *(teacher for table in preset.teachers.values() for teacher in _models(table))):
        if name in preset_names():
            remedy = "add --train-teachers to train it first, which takes as long again, "
            remedy += f"or --teacher {name}=RUN/model if you have it"
            remedy = "train it, then add --model RUN/model" if name == backbone else remedy
            raise UserError(f"{name} is a preset, which is not trained yet", remedy)
    Prompts(preset.encoder.prompt, preset.encoder.prompt_name).check(locate(backbone), backbone)
    if preset.encoder.student is not None:
        check_student(preset.encoder.student)
    _refuse_without_effect(settings, preset)
    return preset


def _chosen(settings: RunSettings, more: Iterable[str] = ()) -> Preset:
    preset = read_preset(settings.preset or fitting_preset(settings.model), [*settings.overrides, *more])
    return _with_teachers(preset, settings.teachers)


def untrained_teachers(settings: RunSettings) -> list[str]:
    """The presets among a preset's teachers: they name models that nobody has trained yet."""
    named = [model for table in _chosen(settings).teachers.values() for model in _models(table)]
    return [name for name in dict.fromkeys(named) if name in preset_names()]


def fitting_preset(model: str | None) -> str:
    """The method for a model if none was named: SimCSE would spoil one that has its own pooling."""
    return "simcse" if model is None or model in preset_names() or is_bare(model) else "adapt"


def _settings_of(preset: Preset) -> dict[str, Any]:
    """Key -> value of all settings except names of models: the identity has checksums of their files."""
    skip = {"encoder.backbone", "description", "name"}
    settings = {key: value for key, value in flat(preset).items() if key not in skip}
    return {k: v for k, v in settings.items() if not (k.startswith("teachers.") and k.endswith((".models", ".model")))}


def _models(table: Mapping[str, Any]) -> list[str]:
    return [str(model) for model in (*table.get("models", ()), *([table["model"]] if "model" in table else ()))]


def _with_teachers(preset: Preset, given: Mapping[str, Sequence[str]]) -> Preset:
    """The preset with the given teachers."""
    tables = {label: dict(table) for label, table in preset.teachers.items()}
    known = {name for label, table in tables.items() for name in (label, *table.get("models", ()))}
    for name in given:
        if name not in known:
            raise UserError(
                f"--teacher {name}: the preset {preset.name} has no such teacher",
                f"it has: {', '.join(sorted(known)) or 'none'}",
            )
    for label, table in tables.items():
        models = given.get(label) or [model for name in table.get("models", ()) for model in given.get(name, [name])]
        table |= {"models": list(models)} if models else {}
    return preset.model_copy(update={"teachers": tables})


def training_text(settings: RunSettings, preset: Preset) -> Texts:
    """What to train on: the texts as they are, or pairs drawn from documents if the preset has ``[pairs]``."""
    if preset.pairs is None:
        return settings.corpus.texts(_wanted(settings, preset.train.batch_size))
    maker, rounds = pair_maker(preset)
    documents, cache = settings.corpus.documents(), cache_folder("pairs")
    return open_pairs(documents, maker, cache=cache, rounds=rounds, seed=settings.seed, held_out=settings.held_out)


def _wanted(settings: RunSettings, batch: int) -> Wanted | None:
    """What a run reads of a corpus: its sample, the sentences that it watches, the first batch. None: all.

    Only a sample of text behind URLs is worth it: of text on this machine, the next sample would have to be read again.
    """
    if settings.sentences is None or not any(map(is_url, settings.corpus.paths)):
        return None
    count, seed = settings.sentences, settings.seed

    def rows(n: int) -> RowIds:
        orders = RowOrder(n, count, seed), RowOrder(n, min(WATCHED, n), WATCHED_SEED)
        return np.unique(np.concatenate([*(order.rows(0, order.size) for order in orders), np.arange(min(batch, n))]))

    return Wanted(f"{count}-{seed}-{batch}", rows)


def _refuse_without_effect(settings: RunSettings, preset: Preset) -> None:
    text, pairs = settings.corpus, preset.pairs is not None
    given: dict[str, Any] = {"title": text.title, "held_out": settings.held_out}
    if text.positive is None:
        given["positive_prompt"] = preset.encoder.positive_prompt
    why = "reads texts, not documents, and positives only from a column"
    if pairs:
        given = {name: getattr(text, name) for name in ("positive", "negatives", "split", "keep_duplicates")}
        why = "draws its pairs from whole documents"
    for name, value in given.items():
        if value:
            problem = f"{name} has no effect with the preset {preset.name}, which {why}"
            raise UserError(problem, "leave it out, or choose another preset")
