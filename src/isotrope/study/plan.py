"""What a study runs: cells. A cell is a row with one seed, or a shared teacher; its key is what decides its result."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import xxhash

import isotrope.text as text
from isotrope.components.registry import READING, STAGES
from isotrope.encoder.checksum import files_checksum
from isotrope.errors import UserError
from isotrope.evaluation.sets.known import data_checksum, data_folder
from isotrope.evaluation.suite import SUITES as MEASURED_BY
from isotrope.evaluation.suite import checked_tasks
from isotrope.post.sif import WordVectors
from isotrope.preset.preset import RESERVED, Preset, check_head, check_third_parties, preset_names, read_preset
from isotrope.store.cache import file_checksum
from isotrope.store.remote import is_url
from isotrope.study.cell import Cell
from isotrope.study.post_step import check_post_step
from isotrope.study.rows import PlannedRow, expand_rows, models_of, scaled, sentences_of
from isotrope.study.spec import RowSettings, Spec, TeacherSettings
from isotrope.training.inputs import STUDENT
from isotrope.training.pairs import SHIPPED_DEV, dev_names, named_pairs


@dataclass(slots=True)
class StudyPlan:
    """The cells; a teacher comes before the cells that need it."""

    spec: Spec
    entries: dict[str, PlannedRow]
    cells: dict[str, Cell] = field(default_factory=dict)  # key -> cell; equal cells of several rows are one
    rows: dict[str, dict[int, str]] = field(default_factory=dict)  # label -> seed -> key
    models: dict[str, str] = field(default_factory=dict)  # a teacher's name -> key


@dataclass(frozen=True, slots=True)
class Place:
    """Where the study reads and writes."""

    output: Path
    data: str | None = None
    forced: tuple[str, ...] = ()  # --set: key=value over every cell


def plan_study(
    spec: Spec, place: Place, only: Sequence[str] = (), sweep: Mapping[str, Sequence[Any]] | None = None
) -> StudyPlan:
    """All cells of a study. Everything is checked that can be checked before a model is loaded."""
    return _Planner(spec, place, expand_rows(spec, only, sweep)).plan


class _Planner:
    def __init__(self, spec: Spec, place: Place, entries: dict[str, PlannedRow]) -> None:
        self.spec, self.place, self.used = spec, place, set[str]()
        self.read, self.checksum = cache(read_preset), cache(_source_checksum)
        run = spec.run
        self.corpus = corpus_of(spec, place)
        self.text = self.corpus.texts().key
        for suite, asked in run.suites.items():
            checked_tasks(suite, asked.tasks or None, asked.setting)
        self.measured_on = {
            suite: [data_checksum(data_folder(place.data), MEASURED_BY[suite].folders), asked.model_dump(mode="json")]
            for suite, asked in run.suites.items()
        }
        self.pairs = cache(self._pairs)
        if run.test == "dev-half" and set(dev_names(run.dev or ())) <= SHIPPED_DEV:
            problem = f"study {spec.name}: run.test = 'dev-half' without dev pairs of your own"
            raise UserError(problem, "add --dev FILE.tsv, or judge by sts, stsb or none")
        self.plan = StudyPlan(spec, entries)
        for label, entry in entries.items():
            seeds = range(run.seeds if entry.row.train else 1)
            try:
                self.plan.rows[label] = {seed: self._cell(entry, seed) for seed in seeds}
            except UserError as error:
                raise UserError(f"study {spec.name}: row {label!r}: {error.problem}", error.remedy) from error
        left_out = [self.read(row.preset, row.set) for row in spec.rows.values()]  # by --rows, for one
        for one in (*run.set, *place.forced):
            unused = one not in self.used
            if unused and (one in place.forced or not any(has_component(_key(one), recipe) for recipe in left_out)):
                raise UserError(f"{one}: no row has such a component", "correct the key, or leave it out")

    def _cell(self, entry: PlannedRow, seed: int, backbone: str | None = None, needed_by: tuple[str, ...] = ()) -> str:
        """Add a cell, and the cells that it needs, to the plan -> its key."""
        row, run = entry.row, self.spec.run
        if row.then and row.train:
            return self._behind(entry, seed, backbone)
        check_post_step(row.then, words=row.vectors)
        recipe = self.read(row.preset, tuple(entry.overrides))
        needs: list[str] = []

        def own(name: str) -> str:
            """For a model that the study trains, its cell's key; for others their name."""
            if name not in self.spec.teachers and name not in preset_names():
                return name
            if name in needed_by:
                raise UserError(
                    f"the model {name} needs itself as a teacher or backbone",
                    "give it other teachers or another backbone",
                )
            needs.append(self._model(name, (*needed_by, name)))
            return needs[-1]

        begin = recipe.encoder.backbone
        if begin in self.spec.teachers or begin in preset_names():
            start = own(begin)
            base = str(self.plan.cells[start].settings["base"])
        else:
            base = start = run.vectors if row.vectors else backbone or run.backbone or begin
        overrides = tuple(self._overrides(entry, recipe, base))
        overrides += tuple(scaled(entry, run.sentences, self.read(row.preset, overrides)))
        recipe = self.read(row.preset, overrides)
        check_third_parties(recipe)
        check_head(recipe)
        taught = models_of(recipe, row) if row.train else {}
        teachers = {label: tuple(map(own, models)) for label, models in taught.items()}
        sentences = sentences_of(entry, run.sentences, recipe)
        settings = _settings(recipe, start, teachers) | {"base": base}
        if row.vectors:
            WordVectors(start)  # which refuses what is no such file
            settings["encoder"] = {"backbone": start}
        judging, selecting = self.pairs(tuple(recipe.train.select))
        others = {name for name in (start, *(m for models in teachers.values() for m in models)) if name not in needs}
        decides = {
            "files": {name: self.checksum(name) for name in sorted(others - {STUDENT})},
            "settings": {k: v for k, v in settings.items() if row.train or run.positives or k == "encoder"},
            "seed": seed, "threads": run.threads, "train": row.train, "test": judging, "suites": self.measured_on,
            "text": [self.text, sentences] if row.train or row.then or run.positives else None,
            "dev": selecting if row.train else None,
        } | ({"then": row.then} if row.then else {}) | ({"positives": True} if run.positives else {})  # fmt: skip
        key = _checksum(decides)
        made = self.plan.cells

        def path(name: str) -> str:
            return str(made[name].model.resolve()) if name in made else name

        made.setdefault(
            key,
            Cell(
                entry.label, key, _folder(self.place, row, seed, key),
                settings, row.preset, overrides, path(start),
                {label: tuple(map(path, models)) for label, models in teachers.items()},
                seed, sentences, self.corpus, self.place.data, run.dev,
                _test(run.test), run.suites, run.positives,
                row.train, row.then, run.threads, (run.keep_models or bool(needed_by)) and not row.vectors,
                tuple(dict.fromkeys(needs)),
            ),
        )  # fmt: skip
        if needed_by and not made[key].keep_model:
            made[key] = replace(made[key], keep_model=True)
        return key

    def _behind(self, entry: PlannedRow, seed: int, backbone: str | None) -> str:
        """A trained row with a step behind its model. Rows with and without the step share one training."""
        row = entry.row
        check_post_step(row.then)
        bare = replace(entry, row=row.model_copy(update={"then": ""}))
        trained = self._cell(bare, seed, backbone, needed_by=(f"then = {row.then}",))
        cell = self.plan.cells[trained]
        key = _checksum([trained, row.then])
        self.plan.cells[key] = replace(
            cell, label=entry.label, key=key, folder=_folder(self.place, row, seed, key), then=row.then,
            backbone=str(cell.model.resolve()), needs=(trained,), train=False, teachers={},
            keep_model=self.spec.run.keep_models,
        )  # fmt: skip
        return key

    def _pairs(self, select: tuple[str, ...]) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
        """Checksums of the pairs that judge a cell, and of those that select its model."""
        run = self.spec.run
        judging, selecting = named_pairs(run.dev, select, _test(run.test), self.place.data)
        judged = {task: {part: pairs.checksum() for part, pairs in parts.items()} for task, parts in judging.items()}
        return judged, {name: pairs.checksum() for name, pairs in selecting.items()}

    def _model(self, name: str, needed_by: tuple[str, ...]) -> str:
        """The cell of a teacher, from the study's table or else from the preset of that name."""
        if name not in self.plan.models:
            model = self.spec.teachers.get(name) or TeacherSettings(preset=name)
            row = RowSettings(preset=model.preset, set=model.set, sentences=model.sentences)
            self.plan.models[name] = self._cell(PlannedRow(name, row, name), model.seed, model.backbone, needed_by)
        return self.plan.models[name]

    def _overrides(self, entry: PlannedRow, recipe: Preset, base: str) -> Iterable[str]:
        """Common settings, the backbone's, the row's, the sweep's, those of the command line: the last one wins."""
        needed = self.spec.backbones[base].set if base in self.spec.backbones else ()
        yield from self._fitting(self.spec.run.set, recipe)
        yield from self._fitting(needed, recipe)
        yield from entry.overrides
        yield from self._fitting(self.place.forced, recipe)

    def _fitting(self, overrides: Iterable[str], recipe: Preset) -> Iterable[str]:
        """Only the overrides whose component the preset has: a common setting must not add one."""
        for override in overrides:
            if has_component(_key(override), recipe):
                self.used.add(override)
                yield override


def _source_checksum(name: str) -> str:
    """Of a model's files, or of a file of word vectors."""
    return file_checksum(Path(name)) if Path(name).is_file() else files_checksum(name)


def _checksum(decides: Any) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(decides, sort_keys=True).encode())[:16]


def _folder(place: Place, row: RowSettings, seed: int, key: str) -> Path:
    return place.output / "cells" / f"{Path(row.preset).stem}-seed-{seed}-{key[:8]}"


def _key(override: str) -> str:
    return override.partition("=")[0].strip()


def has_component(key: str, recipe: Preset) -> bool:
    """Whether a key belongs to the run as a whole, or to a component that the preset has."""
    stage, _, rest = key.partition(".")
    label = rest.split(".")[0]
    if stage == READING:
        return recipe.pairs is not None
    if stage not in (*STAGES, "loss_options"):
        return True
    of_stage = label in RESERVED and recipe.loss is None  # an outside loss has no passes and no order
    return of_stage or label in (getattr(recipe, stage) or {})


def _settings(recipe: Preset, start: str, teachers: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The resolved preset. Models that the study trains are named by their cells' keys, so it holds no paths."""
    tables = recipe.model_dump(mode="json", exclude_none=True, exclude={"name", "description"})
    tables["encoder"]["backbone"] = start
    for label, models in teachers.items():
        tables["teachers"][label]["models"] = list(models)
    return tables


def _test(name: str) -> str | None:
    """What `isotrope.train` calls it."""
    return None if name == "dev-half" else name


def corpus_of(spec: Spec, place: Place) -> text.Opened:
    """The text of all rows, not read yet; UserError as `corpus_files`."""
    run = spec.run
    return text.open(corpus_files(run.corpus, place.data), split=run.split, keep_duplicates=run.keep_duplicates)


def corpus_files(patterns: Sequence[str], data: str | None) -> tuple[str, ...]:
    """Files that a study's patterns name, in the current folder or else in the data folder."""
    if not patterns:
        raise UserError("the study names no corpus", "add --documents FILE, or run.corpus")
    found: list[str] = []
    for pattern in patterns:
        if is_url(pattern):
            found.append(pattern)
            continue
        named = [path for path in (Path(pattern), Path(data or "", pattern)) if path.exists()]
        if named:  # a file name may contain * or ?
            found.append(str(named[0]))
            continue
        here = Path(Path(pattern).anchor)  # the current folder, or the root
        matches = sorted(here.glob(pattern.removeprefix(str(here)) if here.root else pattern))
        matches = matches or (sorted(Path(data).glob(pattern)) if data else [])
        if not matches:
            raise UserError(f"corpus {pattern} does not exist", "check the path, or give --documents or --data")
        found += map(str, matches)
    return tuple(found)
