"""What a run reads, and its identity: everything that decides the result, and nothing else."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from isotrope.encoder.checksum import files_checksum
from isotrope.encoder.locate import is_bare, locate
from isotrope.encoder.prompts import Prompts
from isotrope.encoder.student import check_student
from isotrope.errors import UserError
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.labels import Labels
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.evaluation.sts import SimilaritySets
from isotrope.preset.preset import Preset, check_runnable, pair_maker, preset_names, read_preset
from isotrope.preset.sources import flat
from isotrope.store.cache import cache_folder
from isotrope.store.remote import is_url
from isotrope.text import TextSource
from isotrope.text.corpus import RowSelection, Texts
from isotrope.text.pair_corpus import open_pairs
from isotrope.text.permutation import RowIds
from isotrope.text.sample import RowOrder
from isotrope.training.pairs import TransferDev, named_pairs
from isotrope.training.processes import process_count

STUDENT = "initial"  # as a teacher's model: the student before training
# sentences for the label-free signals, the same for every seed of a run
WATCHED, WATCHED_SEED = 1000, 0


@dataclass(frozen=True)
class RunInputs:
    """What a run reads."""

    text: TextSource  # as it was given; a preset with ``[pairs]`` reads it as documents
    preset: Preset  # the resolved one
    corpus: Texts  # what is trained on
    # dev set -> pairs or tasks that choose the checkpoint
    selecting: Mapping[str, GradedPairs | TransferDev]
    judging: SimilaritySets  # task -> part -> pairs that judge the result
    searched: RetrievalSet | None  # queries that judge it instead
    seed: int
    max_texts: int | None
    held_out: int
    log_to: Sequence[str]
    chosen: bool  # whether the preset was chosen for the model, as none was named
    identity: Mapping[str, Any]  # what ``job.json`` holds


def read_inputs(
    text: TextSource,
    *,
    preset: str | Path | None = None,
    model: str | None = None,
    labels: str | Labels | None = None,
    dev: str | Sequence[str] | None = None,
    data: str | Path | None = None,
    seed: int = 0,
    max_texts: int | None = None,
    overrides: Sequence[str] = (),
    prompt: str | None = None,
    prompt_name: str | None = None,
    positive_prompt: str | None = None,
    teachers: Mapping[str, Sequence[str]] | None = None,
    held_out: int = 0,
    log_to: Sequence[str] = (),
) -> RunInputs:
    """Read the preset, the pairs and the text, and take checksums of the models, of which none is
    loaded.

    All is as `isotrope.train` takes it, but models are names or folders, and labels are read.
    """
    given = {
        "backbone": model,
        "prompt": prompt,
        "prompt_name": prompt_name,
        "positive_prompt": positive_prompt,
    }
    own = [
        f"encoder.{tomli_w.dumps({key: value})}"
        for key, value in given.items()
        if value is not None
    ]
    resolved = resolved_preset(preset, model, [*overrides, *own], teachers or {})
    _check(resolved)
    refuse_without_effect(text, resolved, held_out)
    searched, data = (
        labels if isinstance(labels, RetrievalSet) else None,
        data or os.environ.get("ISOTROPE_DATA"),
    )
    judging, selecting = named_pairs(dev, resolved.train.select, labels, data)
    corpus = training_text(text, resolved, max_texts, seed, held_out)
    # of the names of models, the identity has checksums of their files
    named, processes = re.compile(r"encoder\.backbone|teachers\..*\.models?"), process_count()
    keys = {key: value for key, value in flat(resolved).items() if not named.fullmatch(key)}
    # Dropout and token steps draw. Without them the number of processes does not matter, and the
    # batch of all of them together decides.
    if resolved.encoder.dropout == 0 and not resolved.tokens:
        keys["train.batch_size"], processes = keys["train.batch_size"] * processes, 1
    judges = {
        f"{task}/{part}": pairs for task, parts in judging.items() for part, pairs in parts.items()
    }
    identity = {
        "preset": keys,
        "model": files_checksum(resolved.encoder.backbone),
        "teachers": {
            label: [one if one == STUDENT else files_checksum(one) for one in _models(table)]
            for label, table in resolved.teachers.items()
        },
        "documents": corpus.key,
        "dev": {name: pairs.checksum() for name, pairs in selecting.items()},
        "labels": {
            name: each.checksum()
            for name, each in ({searched.name: searched} if searched else judges).items()
        },
        "seed": seed,
        "sentences": max_texts,
        "processes": processes,
    }
    return RunInputs(
        text,
        resolved,
        corpus,
        selecting,
        judging,
        searched,
        seed,
        max_texts,
        held_out,
        log_to,
        preset is None and model is not None,
        identity,
    )


def resolved_preset(
    preset: str | Path | None,
    model: str | None,
    overrides: Sequence[str],
    teachers: Mapping[str, Sequence[str]],
) -> Preset:
    """The preset, or the one that fits the model, with the given teachers."""
    if preset is None:  # SimCSE would spoil a model that has its own pooling
        preset = "simcse" if model is None or model in preset_names() or is_bare(model) else "adapt"
    found = read_preset(preset, overrides)
    tables = {label: dict(table) for label, table in found.teachers.items()}
    known = {name for label, table in tables.items() for name in (label, *table.get("models", ()))}
    for name in teachers:
        if name not in known:
            problem = f"--teacher {name}: the preset {found.name} has no such teacher"
            raise UserError(problem, f"it has: {', '.join(sorted(known)) or 'none'}")
    for label, table in tables.items():
        models = teachers.get(label) or [
            one for name in table.get("models", ()) for one in teachers.get(name, [name])
        ]
        table |= {"models": list(models)} if models else {}
    return found.model_copy(update={"teachers": tables})


def untrained_teachers(preset: Preset) -> list[str]:
    """The presets among a preset's teachers: they name models that nobody has trained yet."""
    models = (one for table in preset.teachers.values() for one in _models(table))
    return [name for name in dict.fromkeys(models) if name in preset_names()]


def _check(preset: Preset) -> None:
    check_runnable(preset)
    backbone = preset.encoder.backbone
    for name in (
        backbone,
        *(teacher for table in preset.teachers.values() for teacher in _models(table)),
    ):
        if name in preset_names():
            remedy = "train it, then add --model RUN/model"
            if name != backbone:
                remedy = f"add --train-teachers to train it first, or --teacher {name}=RUN/model if you have it"
            raise UserError(f"{name} is a preset, which is not trained yet", remedy)
    Prompts(preset.encoder.prompt, preset.encoder.prompt_name).check(locate(backbone), backbone)
    if preset.encoder.student is not None:
        check_student(preset.encoder.student)


def refuse_without_effect(text: TextSource, preset: Preset, held_out: int = 0) -> None:
    """Refuse columns, splits and held-out documents that the preset does not read."""
    if preset.pairs is None:
        why = "reads texts, not documents, and positives only from a column"
        prompt = None if text.positive else preset.encoder.positive_prompt
        given: dict[str, Any] = {
            "title": text.title_column,
            "held_out": held_out,
            "positive_prompt": prompt,
        }
    else:
        why = "draws its pairs from whole documents"
        given = {
            name: getattr(text, name)
            for name in ("positive", "negatives", "split", "keep_duplicates")
        }
    for name in filter(given.get, given):
        problem = f"{name} has no effect with the preset {preset.name}, which {why}"
        raise UserError(problem, "leave it out, or choose another preset")


def _models(table: Mapping[str, Any]) -> list[str]:
    return [
        str(model)
        for model in (*table.get("models", ()), *([table["model"]] if "model" in table else ()))
    ]


def training_text(
    text: TextSource, preset: Preset, max_texts: int | None, seed: int = 0, held_out: int = 0
) -> Texts:
    """What to train on: the texts as they are, or pairs drawn from documents if the preset has
    ``[pairs]``.
    """
    if preset.pairs is not None:
        maker, rounds = pair_maker(preset)
        place = cache_folder("pairs")
        return open_pairs(
            text.documents(), maker, cache=place, rounds=rounds, seed=seed, held_out=held_out
        )
    # Only a sample of text behind URLs is worth it: on this machine, the next sample would have to
    # be read again.
    if max_texts is None or not any(map(is_url, text.paths)):
        return text.texts()
    batch = preset.train.batch_size

    def rows(n: int) -> RowIds:
        """The sample, the sentences that are watched, and the first batch."""
        orders = RowOrder(n, max_texts, seed), RowOrder(n, min(WATCHED, n), WATCHED_SEED)
        return np.unique(
            np.concatenate(
                [*(order.rows(0, order.size) for order in orders), np.arange(min(batch, n))]
            )
        )

    return text.texts(RowSelection(f"{max_texts}-{seed}-{batch}", rows))
