"""A run, whole: preset and text in; a model, its record and the truth about it out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from sentence_transformers import SentenceTransformer
from torch import Tensor
from transformers.integrations import get_available_reporting_integrations

from isotrope.encoder import load, save
from isotrope.encoder.context import BuildContext
from isotrope.encoder.fast.compiled import compile_layers
from isotrope.errors import UserError
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.evaluation.sts import Cosines, Sets, similarities
from isotrope.objective.preset import (
    Preset,
    build_objective,
    check_third_parties,
    open_teachers,
    preset_names,
    read_preset,
)
from isotrope.run.fit import fit
from isotrope.run.folder import RunFolder, Time
from isotrope.run.pairs import named_pairs
from isotrope.run.processes import process_count, process_number
from isotrope.run.selection import DevScore, Signals
from isotrope.run.settings import RunSettings
from isotrope.run.verdict import judge
from isotrope.store.cache import cache_folder
from isotrope.text.batches import PermutedBatches
from isotrope.text.corpus import Corpus, open_corpus
from isotrope.text.files import find_sources
from isotrope.text.permutation import Permutation

WATCHED = 1000  # sentences for the label-free signals
SHOWN = 500  # of these, kept for the report: one a line


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run: ``result`` is what ``result.json`` holds; empty on processes other than the first."""

    folder: Path
    result: Mapping[str, Any]

    @property
    def model(self) -> Path:
        """The new model, in plain sentence-transformers format, without the head."""
        return RunFolder(self.folder).model


def train(
    corpus: str | Path | Sequence[str | Path],
    *,
    output: str | Path,
    preset: str | Path = "simcse",
    backbone: str | None = None,
    teachers: Mapping[str, Sequence[str]] | None = None,
    dev: str | Sequence[str] | None = None,
    test: str | None = None,
    data: str | Path | None = None,
    seed: int = 0,
    sentences: int | None = None,
    overrides: Iterable[str] = (),
    text: str | None = None,
    positive: str | None = None,
    negatives: Iterable[str] = (),
    log_to: Iterable[str] = (),
    resume: bool = False,
    console: Console | None = None,
) -> Run:
    """Turn plain sentences into a better sentence-embedding model, and say whether it is better.

    The settings are those of `RunSettings`, which describes each. ``console`` is where to report; None reports to the
    terminal.

    Raises:
        UserError: a mistake of the user's, before any long work where it can be seen before.
        Stopped: Ctrl-C; the run can be resumed.
    """
    settings = RunSettings(
        corpus=corpus, output=output, preset=preset, backbone=backbone, teachers=teachers or {}, dev=dev, test=test,
        data=data, seed=seed, sentences=sentences, overrides=tuple(overrides), text=text, positive=positive,
        negatives=tuple(negatives), log_to=tuple(log_to), resume=resume,
    )  # fmt: skip
    return run_training(settings, console)


def run_training(settings: RunSettings, console: Console | None = None) -> Run:
    """What `train` does, for settings that are a record already.

    Raises:
        UserError: as `train`.
        Stopped: as `train`.
    """
    console = console or Console(quiet=process_number() != 0)
    folder = RunFolder(settings.output)
    with folder.hold() if process_number() == 0 else nullcontext():
        return _run(settings, folder, console)


def _run(settings: RunSettings, folder: RunFolder, console: Console) -> Run:
    chosen = [f"encoder.backbone={json.dumps(settings.backbone)}"] if settings.backbone is not None else []
    recipe = _with_teachers(read_preset(settings.preset, [*settings.overrides, *chosen]), settings.teachers)
    check_third_parties(recipe)
    data = settings.data or os.environ.get("ISOTROPE_DATA") or None
    seed, sentences = settings.seed, settings.sentences
    identity = {"preset": recipe.toml(), "corpus": "", "dev": "", "seed": seed, "sentences": sentences}
    if process_number() == 0:
        _check(folder, identity, settings.resume)
    if folder.finished:
        return Run(folder.path, folder.result())
    trackers = _trackers(settings.log_to)
    find_sources(settings.paths)
    sets, dev_sets = named_pairs(settings.dev, recipe.train.select, settings.test, data)
    model = _student(recipe)
    cleaned = open_corpus(
        settings.paths, cache=cache_folder("corpora"), text=settings.text, positive=settings.positive,
        negatives=settings.negatives,
    )  # fmt: skip
    batches = PermutedBatches(len(cleaned), recipe.train.batch_size, seed, limit=sentences, world_size=process_count())
    identity |= {"corpus": cleaned.key, "dev": _known(dev_sets)}
    _refuse_equal_views(model, recipe, cleaned)
    if recipe.train.compile:
        compile_layers(model)
    evaluator = DevScore(dev_sets) if dev_sets else Signals(_some(cleaned), recipe.train.max_length)
    if process_number() == 0:
        _check(folder, identity, settings.resume)
        folder.begin(identity, recipe, [" ".join(text.split()) for text in _some(cleaned)[:SHOWN]])
        _announce(console, recipe, cleaned, sentences, dev_sets)
    rows = batches.rows(0, sentences) if sentences else None
    taught = open_teachers(recipe, BuildContext.of(model, corpus=cleaned, rows=rows))
    before = _measure(model, sets, folder, "before", console)
    fitted = fit(
        model,
        recipe,
        cleaned,
        evaluator,
        folder.path,
        seed=seed,
        sentences=sentences,
        rows=rows,
        console=console,
        teachers=taught,
        log_to=trackers,
    )
    if process_number() != 0:
        return Run(folder.path, {})
    console.print("saving the model", highlight=False, soft_wrap=True)
    save(model, folder.model)
    after = _measure(model, sets, folder, "after", console)
    result = {
        "preset": recipe.name,
        "backbone": recipe.encoder.backbone,
        "seed": seed,
        "corpus": {"key": cleaned.key, "rows": len(cleaned), "used": sentences or len(cleaned)},
        "selection": {"sets": list(dev_sets), **asdict(fitted)},
        **judge(sets, before, after),
    }
    folder.write_result(result)
    return Run(folder.path, result)


def _check(folder: RunFolder, identity: Mapping[str, Any], resume: bool) -> None:
    """Refuse another run's folder. An identity's value that is still empty is not compared."""
    if not folder.begun:
        return
    if not resume:
        problem = f"{folder.path} holds a run already"
        raise UserError(problem, "add --resume to go on with it, or choose another --output")
    began = folder.identity()
    for key, value in identity.items():
        then = began.get(key)
        if value != "" and then != value:
            shown = "the preset or its overrides" if key == "preset" else f"{key} = {value!r} (then {then!r})"
            problem = f"{folder.path} holds a run with other settings: {shown}"
            raise UserError(problem, "resume with those it began with")


def _known(dev_sets: Mapping[str, Pairs]) -> str:
    """The dev sets by name and contents: pairs that were changed since must not select the same run."""
    return ", ".join(f"{name} ({pairs.checksum()[:8]})" for name, pairs in dev_sets.items()) or "none"


def _with_teachers(recipe: Preset, given: Mapping[str, Sequence[str]]) -> Preset:
    """The preset with its teachers' models replaced; a preset's name among them must have been."""
    tables = {label: dict(table) for label, table in recipe.teachers.items()}
    known = {name for label, table in tables.items() for name in (label, *table.get("models", ()))}
    for name in given:
        if name not in known:
            raise UserError(
                f"--teacher {name}: the preset {recipe.name} has no such teacher",
                f"it has: {', '.join(sorted(known)) or 'none'}",
            )
    for label, table in tables.items():
        models = given.get(label) or [model for name in table.get("models", ()) for model in given.get(name, [name])]
        if untrained := [model for model in models if model in preset_names()]:
            problem = f"the teacher {label} is the preset {untrained[0]}, which is not trained yet"
            raise UserError(problem, f"train it, then add --teacher {untrained[0]}=RUN/model")
        table |= {"models": list(models)} if models else {}
    return recipe.model_copy(update={"teachers": tables})


def _student(recipe: Preset) -> SentenceTransformer:
    """The encoder to train; its own length stays for use, ``train.max_length`` is for training alone."""
    settings = recipe.encoder
    if settings.backbone in preset_names():
        problem = f"encoder.backbone = {settings.backbone!r} is a preset"
        raise UserError(problem, "train it first, then give its model: --backbone RUN/model")
    model = load(settings.backbone, settings.pooling, dropout=settings.dropout, normalize=settings.normalize)
    longest = getattr(model[0].auto_model.config, "max_position_embeddings", recipe.train.max_length)
    if recipe.train.max_length > longest:
        raise UserError(
            f"train.max_length = {recipe.train.max_length} is more than {settings.backbone} can read",
            f"choose at most {longest}",
        )
    return model


def _trackers(names: Iterable[str]) -> list[str]:
    """The trackers asked for, all of which transformers knows and finds installed."""
    asked, here = list(names), get_available_reporting_integrations()
    for name in asked:
        if name not in here:
            known = f"install its package, or leave out --log-to (there are: {', '.join(here) or 'none'})"
            raise UserError(f"tracker {name!r} is unknown or not installed", known)
    return asked


def _refuse_equal_views(model: SentenceTransformer, recipe: Preset, corpus: Corpus) -> None:
    """The objective's own check of its first step, before anything long or written."""
    objective = build_objective(recipe, model).train()
    rows = corpus.dataset[: recipe.train.batch_size]
    columns = [model.preprocess(rows[name], max_length=recipe.train.max_length) for name in corpus.columns]
    features = [{k: v.to(model.device) if isinstance(v, Tensor) else v for k, v in c.items()} for c in columns]
    with torch.no_grad():
        objective.to(model.device).view(features, None)
    model.eval()


def _some(corpus: Corpus) -> list[str]:
    """Sentences for the label-free signals: a random sample of the corpus."""
    rows = Permutation(len(corpus), 0)[np.arange(min(WATCHED, len(corpus)))]
    return list(corpus.dataset[rows]["text"])


def _measure(model: SentenceTransformer, sets: Sets, folder: RunFolder, time: Time, console: Console) -> Cosines:
    """Cosines of the judging pairs, kept in the folder, so that a resumed run need not encode again."""
    if process_number() != 0 or not sets:
        return {}
    if not (scored := folder.cosines(time)):
        pairs = sum(len(part) for parts in sets.values() for part in parts.values())
        console.print(f"encoding {pairs:,} pairs that judge the run ({time})", highlight=False, soft_wrap=True)
        folder.write_cosines(time, sets, similarities(model, sets))
        scored = folder.cosines(time)
    return {task: {part: cosines for part, (_, cosines) in parts.items()} for task, parts in scored.items()}


def _announce(
    console: Console, recipe: Preset, corpus: Corpus, sentences: int | None, dev_sets: Mapping[str, Pairs]
) -> None:
    console.print(str(corpus.report), highlight=False, markup=False, soft_wrap=True)
    t = recipe.train
    console.print(
        f"{recipe.name} from {recipe.encoder.backbone}: {sentences or len(corpus):,} sentences, {t.epochs:g} epochs, "
        f"batches of {t.batch_size}",
        highlight=False,
    )
    if not dev_sets:
        console.print(
            "no dev pairs: label-free signals are shown, and the last checkpoint is kept",
            highlight=False,
            soft_wrap=True,
        )
