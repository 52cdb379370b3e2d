"""A run, whole: preset and text in; a model, its record and the truth about it out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
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
from isotrope.encoder.fast.compiled import compile_layers
from isotrope.errors import UserError
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.evaluation.sts import Sets
from isotrope.objective.preset import Preset, build_objective, open_teachers, preset_names, read_preset
from isotrope.run import folder as claim
from isotrope.run.environment import environment
from isotrope.run.fit import fit, process, processes
from isotrope.run.folder import RESULT
from isotrope.run.pairs import named_pairs
from isotrope.run.selection import DevScore, Signals
from isotrope.run.verdict import Measured, judge
from isotrope.store.cache import cache_folder
from isotrope.store.disk import writing
from isotrope.teachers import Context
from isotrope.text.batches import PermutedBatches
from isotrope.text.corpus import Corpus, open_corpus
from isotrope.text.files import find_sources
from isotrope.text.permutation import Permutation

WATCHED = 1000  # sentences for the label-free signals
SHOWN = 500  # of these, kept for the report: one a line


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run: ``result`` is what ``result.json`` holds."""

    folder: Path
    result: Mapping[str, Any]

    @property
    def model(self) -> Path:
        """The new model, in plain sentence-transformers format, without the head."""
        return self.folder / "model"


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

    Args:
        corpus: files or folders of text: see ``isotrope.text.corpus.open_corpus``.
        output: the run's folder, for ``model/``, ``result.json``, ``metrics.jsonl``, ``preset.toml`` and more.
        preset: a shipped preset's name, or a .toml file.
        backbone: the model to begin with, instead of the preset's.
        teachers: a teacher's name, or the name of a model in the preset's teachers, -> the models to take instead.
        dev: pairs that choose the checkpoint: ``stsb``, ``sickr``, the user's .tsv files; several for their mean;
            ``none`` keeps the last. None takes the preset's, or, where no data folder is known, none.
        test: pairs that judge the result: ``sts`` (seven test sets), ``stsb``, ``none``. None takes ``sts`` where the
            data folder is known, else half of the user's own dev pairs.
        data: the folder that holds ``senteval/``; None takes ISOTROPE_DATA.
        seed: of the head, the order, the dropout and the random steps.
        sentences: train on a random sample of so many.
        overrides: ``key=value`` over the preset's keys.
        text: column of the sentences, in tables.
        positive: column of the positives.
        negatives: columns of hard negatives.
        log_to: trackers that transformers knows (``tensorboard``, ``wandb``, …).
        resume: go on with a run that was stopped or killed; the result is that of an undisturbed one.
        console: where to report; None reports to the terminal.

    Raises:
        UserError: a mistake of the user's, before any long work where it can be seen before.
        Stopped: Ctrl-C; the run can be resumed.
    """
    console = console or Console(quiet=process() != 0)
    chosen = [f"encoder.backbone={json.dumps(backbone)}"] if backbone is not None else []
    recipe = _with_teachers(read_preset(preset, [*overrides, *chosen]), teachers or {})
    folder = Path(output)
    data = data or os.environ.get("ISOTROPE_DATA") or None
    with writing(folder):
        identity = {"preset": recipe.toml(), "corpus": "", "dev": "", "seed": seed, "sentences": sentences}
        if process() == 0:
            claim.check(folder, identity, resume)
        if (folder / RESULT).is_file():
            return Run(folder, claim.read(folder / RESULT))
        trackers = _trackers(log_to)
        find_sources([corpus] if isinstance(corpus, str | Path) else corpus)
        sets, dev_sets = named_pairs(dev, recipe.train.select, test, data)
        model = _student(recipe)
        cleaned = open_corpus(corpus, cache=cache_folder("corpora"), text=text, positive=positive, negatives=negatives)
        batches = PermutedBatches(len(cleaned), recipe.train.batch_size, seed, limit=sentences, world_size=processes())
        identity |= {"corpus": cleaned.key, "dev": _known(dev_sets)}
        _refuse_equal_views(model, recipe, cleaned)
        if recipe.train.compile:
            compile_layers(model)
        evaluator = DevScore(dev_sets) if dev_sets else Signals(_some(cleaned), recipe.train.max_length)
        if process() == 0:
            claim.check(folder, identity, resume)
            claim.claim(folder, identity, _papers(recipe, cleaned))
            _announce(console, recipe, cleaned, sentences, dev_sets)
        rows = batches.rows(0, sentences) if sentences else None
        taught = open_teachers(recipe, Context(cleaned, model, rows))
        before = _measure(model, sets, folder / "before.npz", console)
        fitted = fit(
            model,
            recipe,
            cleaned,
            evaluator,
            folder,
            seed=seed,
            sentences=sentences,
            rows=rows,
            console=console,
            teachers=taught,
            log_to=trackers,
        )
        if process() != 0:
            return Run(folder, {})
        console.print("saving the model", highlight=False, soft_wrap=True)
        save(model, folder / "model")
        after = _measure(model, sets, folder / "after.npz", console)
        result = {
            "preset": recipe.name,
            "backbone": recipe.encoder.backbone,
            "seed": seed,
            "corpus": {"key": cleaned.key, "rows": len(cleaned), "used": sentences or len(cleaned)},
            "selection": {"sets": list(dev_sets), **asdict(fitted)},
            **judge(sets, before, after),
        }
        claim.write(folder / RESULT, json.dumps(result, indent=2))
        return Run(folder, result)


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


def _papers(recipe: Preset, corpus: Corpus) -> dict[str, str]:
    """What a run keeps from its beginning, for whoever reads it later."""
    return {
        "preset.toml": recipe.toml(),
        "environment.json": json.dumps(environment(), indent=2),
        "sample.txt": "".join(" ".join(text.split()) + "\n" for text in _some(corpus)[:SHOWN]),
    }


def _some(corpus: Corpus) -> list[str]:
    """Sentences for the label-free signals: a random sample of the corpus."""
    rows = Permutation(len(corpus), 0)[np.arange(min(WATCHED, len(corpus)))]
    return list(corpus.dataset[rows]["text"])


def _measure(model: SentenceTransformer, sets: Sets, path: Path, console: Console) -> Measured:
    """Cosines of the judging pairs, kept in ``path``, so that a resumed run need not encode again."""
    if process() != 0 or not sets:
        return Measured({})
    if not path.is_file():
        pairs = sum(len(part) for parts in sets.values() for part in parts.values())
        console.print(f"encoding {pairs:,} pairs that judge the run ({path.stem})", highlight=False, soft_wrap=True)
        Measured.of(model, sets).save(path, sets)
    return Measured.read(path)


def _announce(
    console: Console, recipe: Preset, corpus: Corpus, sentences: int | None, dev_sets: Mapping[str, Pairs]
) -> None:
    console.print(str(corpus.report), highlight=False, soft_wrap=True)
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
