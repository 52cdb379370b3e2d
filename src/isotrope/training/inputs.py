"""What a run reads, and its identity: everything that decides the result, and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from isotrope.encoder.checksum import files_checksum
from isotrope.encoder.locate import locate
from isotrope.encoder.prompts import Prompts
from isotrope.encoder.student import check_student
from isotrope.errors import UserError, printable
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.evaluation.sts import Sets
from isotrope.preset.head import check_head
from isotrope.preset.preset import Preset, check_third_parties, preset_names, read_preset
from isotrope.preset.sources import flat
from isotrope.store.remote import local_paths
from isotrope.training.folder import RunFolder
from isotrope.training.pairs import TransferDev, named_pairs
from isotrope.training.processes import process_count
from isotrope.training.reading import text_key
from isotrope.training.settings import RunSettings
from isotrope.training.sharded import check_fsdp

_BATCH = "train.batch_size"
STUDENT = "initial"  # as a teacher's model: the student before training
WORDS = {
    "corpus": "the contents of the corpus, its columns, what is held out, its split or its duplicates",
    "backbone": "the files of the backbone",
}


@dataclass(frozen=True)
class RunInputs:
    """What a run reads: small files with their contents, large ones as checksums.

    Attributes:
        settings: what was asked for.
        preset: the resolved preset.
        selecting: dev set -> pairs or tasks that choose the checkpoint.
        judging: task -> part -> pairs that judge the result.
        identity: what ``run.json`` holds.
    """

    settings: RunSettings
    preset: Preset
    selecting: Mapping[str, Pairs | TransferDev]
    judging: Sets
    identity: Mapping[str, Any]


def read_inputs(settings: RunSettings) -> RunInputs:
    """Read the small files and take checksums of the others. No model is loaded, and no text is cleaned.

    Raises:
        UserError: a mistake in the preset, the pairs, or a path.
    """
    given = {key: getattr(settings, key) for key in ("backbone", "prompt", "prompt_name", "positive_prompt")}
    chosen = [f"encoder.{tomli_w.dumps({key: value})}" for key, value in given.items() if value is not None]
    preset = _with_teachers(read_preset(settings.preset, [*settings.overrides, *chosen]), settings.teachers)
    check_third_parties(preset)
    check_head(preset)
    check_fsdp(preset)
    _refuse_preset_as_backbone(preset)
    prompts, backbone = Prompts(preset.encoder.prompt, preset.encoder.prompt_name), preset.encoder.backbone
    prompts.check(locate(backbone), backbone)
    if preset.encoder.student is not None:
        check_student(preset.encoder.student)
    if preset.encoder.positive_prompt is not None and settings.positive is None and preset.pairs is None:
        raise UserError("positive_prompt is given, but no positives", "name their column, or leave the prompt out")
    refuse_output_in_corpus(Path(settings.output), settings.paths)
    data = settings.data or os.environ.get("ISOTROPE_DATA") or None
    key = text_key(settings, preset)
    judging, selecting = named_pairs(settings.dev, preset.train.select, settings.test, data)
    identity = {
        "preset": _settings_of(preset),
        "backbone": files_checksum(preset.encoder.backbone),
        "teachers": {label: [_checksum(model) for model in _models(table)] for label, table in preset.teachers.items()},
        "corpus": key,
        "dev": {name: pairs.checksum() for name, pairs in selecting.items()},
        "test": {f"{task}/{part}": p.checksum() for task, parts in judging.items() for part, p in parts.items()},
        "seed": settings.seed,
        "sentences": settings.sentences,
        "processes": process_count(),
    }
    return RunInputs(settings, preset, selecting, judging, json.loads(json.dumps(identity)))


def refuse_other_run(folder: RunFolder, identity: Mapping[str, Any], resume: bool) -> None:
    """If the folder holds a run: check that it is this run, and that the user asked to resume it.

    Raises:
        UserError: ``resume`` is False, or something that decides the result differs. The message names it.
    """
    if not folder.begun:
        if folder.checkpoints.exists() or folder.finished:
            raise UserError(
                f"{folder.path / 'run.json'} is missing", "choose another --output: its settings are unknown"
            )
        return
    if not resume:
        problem = f"{folder.path} holds a run already"
        raise UserError(problem, "add --resume to go on with it, or choose another --output")
    then = folder.identity()
    if _differences(_joined(then), _joined(identity)):
        found = _differences(then, identity)
        problem = f"{folder.path} holds a run with other settings: {'; '.join(found)}"
        raise UserError(problem, "resume with those it began with, or choose another --output")


def _joined(identity: Mapping[str, Any]) -> Mapping[str, Any]:
    """The identity with the batch of all processes together, where that decides: no process draws anything of its own.

    Dropout and token steps draw. An outside loss sees the batch of its own process alone.
    """
    preset = identity.get("preset")
    if not isinstance(preset, dict) or preset.get("encoder.dropout") != 0 or "loss" in preset:
        return identity
    if any(key.startswith("tokens.") for key in preset):
        return identity
    together = preset.get(_BATCH, 0) * identity.get("processes", 1)
    return {**identity, "processes": None, "preset": preset | {_BATCH: together}}


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs, in words."""
    found = []
    for key, new in now.items():
        if (old := then.get(key)) == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
            if key == "preset":
                found.append(f"{names[0]} = {new.get(names[0])!r} (then {old.get(names[0])!r})")
            else:
                found.append(f"the {key} {'pairs ' if key in ('dev', 'test') else ''}{', '.join(names)}")
        else:
            found.append(
                WORDS.get(key) or (f"the {key}" if isinstance(new, dict) else f"{key} = {new!r} (then {old!r})")
            )
    return found


def _settings_of(preset: Preset) -> dict[str, Any]:
    """Key -> value of all settings except names of models: the identity has checksums of their files."""
    skip = {"encoder.backbone", "description", "name"}
    settings = {key: value for key, value in flat(preset).items() if key not in skip}
    return {k: v for k, v in settings.items() if not (k.startswith("teachers.") and k.endswith((".models", ".model")))}


def _models(table: Mapping[str, Any]) -> list[str]:
    return [str(model) for model in (*table.get("models", ()), *([table["model"]] if "model" in table else ()))]


def _checksum(model: str) -> str:
    return model if model == STUDENT else files_checksum(model)


def _with_teachers(preset: Preset, given: Mapping[str, Sequence[str]]) -> Preset:
    """The preset with the given teachers. A teacher that is a preset's name must be among those given."""
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
        if untrained := [model for model in models if model in preset_names()]:
            problem = f"the teacher {label} is the preset {untrained[0]}, which is not trained yet"
            raise UserError(problem, f"train it, then add --teacher {untrained[0]}=RUN/model")
        table |= {"models": list(models)} if models else {}
    return preset.model_copy(update={"teachers": tables})


def _refuse_preset_as_backbone(preset: Preset) -> None:
    if preset.encoder.backbone in preset_names():
        problem = f"encoder.backbone = {preset.encoder.backbone!r} is a preset"
        raise UserError(problem, "train it first, then give its model: --backbone RUN/model")


def refuse_output_in_corpus(output: Path, corpus: Iterable[str | Path]) -> None:
    """Refuse to write into a folder of text: what is written would be read as text by the next call.

    Raises:
        UserError: ``output`` lies in a folder of the corpus.
    """
    for path in local_paths(filter(str, corpus)):  # an empty one is no folder, and refused when it is read
        if path.is_dir() and output.resolve().is_relative_to(path.resolve()):
            problem = f"{printable(str(output))} lies in the corpus folder {printable(str(path))}"
            raise UserError(problem, "choose an --output elsewhere")
