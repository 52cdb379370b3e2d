"""What a study runs: cells. A cell is a row with one seed, or a shared teacher; its key is what
decides its result.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import xxhash

from isotrope.components.registry import READING, STAGES
from isotrope.encoder.checksum import files_checksum
from isotrope.encoder.word_vectors import WordVectors
from isotrope.errors import UserError, check_known
from isotrope.evaluation.document_tasks import FEWEST_TEXTS, FEWEST_WORDS, make_document_tasks
from isotrope.evaluation.sets.files import data_checksum, data_folder
from isotrope.evaluation.suite import SUITES as MEASURED_BY
from isotrope.evaluation.suite import checked_tasks
from isotrope.preset.preset import RESERVED, Preset, check_runnable, preset_names, read_preset
from isotrope.store.files import file_checksum
from isotrope.store.remote import is_url
from isotrope.study.cell import Cell
from isotrope.study.rows import PlannedRow, check_step, expand_rows
from isotrope.study.spec import RowSettings, Spec, TeacherSettings
from isotrope.text import TextPath, TextSource, read_text
from isotrope.training.inputs import STUDENT, refuse_without_effect, training_text
from isotrope.training.pairs import SHIPPED_DEV, dev_names, named_pairs


@dataclass(frozen=True, slots=True)
class Place:
    """Where the study reads and writes."""

    output: Path
    data: str | None = None
    forced: tuple[str, ...] = ()  # --set: key=value over every cell


class StudyPlan:
    """All cells of a study. Everything is checked that can be checked before a model is loaded.

    A teacher comes before the cells that need it. Equal cells of several rows are one.
    """

    def __init__(
        self,
        spec: Spec,
        place: Place,
        only: Sequence[str] = (),
        sweep: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        self.entries = expand_rows(spec, only, sweep)
        self.cells: dict[str, Cell] = {}  # key -> cell
        self.rows: dict[str, dict[int, str]] = {}  # label -> seed -> key
        self.models: dict[str, str] = {}  # a teacher's name -> key
        self.spec, self.place, run = spec, place, spec.run
        self.read, self.pairs = cache(read_preset), cache(self._pairs)
        self.checksum = cache(
            lambda name: file_checksum(Path(name)) if Path(name).is_file() else files_checksum(name)
        )
        self.opened = cache(self._opened)
        self.documents = (
            read_text(corpus_files(run.documents, place.data)) if run.documents else None
        )
        if self.documents and not make_document_tasks([*self.documents.documents().each()]).tasks:
            remedy = f"name at least {FEWEST_TEXTS} documents of {FEWEST_WORDS} words or more"
            raise UserError(f"study {spec.name}: documents: too few for a task", remedy)
        for suite, asked in run.suites.items():
            checked_tasks(suite, asked.tasks or None, asked.setting)
        self.measured_on = {
            suite: [
                data_checksum(data_folder(place.data), MEASURED_BY[suite].folders),
                asked.model_dump(mode="json"),
            ]
            for suite, asked in run.suites.items()
        }
        if run.test == "dev-half" and set(dev_names(run.dev or ())) <= SHIPPED_DEV:
            problem = f"study {spec.name}: run.test = 'dev-half' without dev pairs of your own"
            raise UserError(problem, "add --dev FILE.tsv, or judge by sts, stsb or none")
        for label, entry in self.entries.items():
            seeds = range(run.seeds if entry.row.train else 1)
            try:
                self.rows[label] = {seed: self._cell(entry, seed) for seed in seeds}
            except UserError as error:
                raise UserError(
                    f"study {spec.name}: row {label!r}: {error.problem}", error.remedy
                ) from error
        recipes = [self.read(cell.row.preset, cell.overrides) for cell in self.cells.values()]
        # by --rows, for one
        left_out = [self.read(row.preset, row.set) for row in spec.rows.values()]
        for one in (*run.set, *place.forced):
            check_component(one, recipes if one in place.forced else recipes + left_out)

    def _cell(
        self,
        entry: PlannedRow,
        seed: int,
        backbone: str | None = None,
        needed_by: tuple[str, ...] = (),
    ) -> str:
        """Add a cell, and the cells that it needs, to the plan -> its key."""
        row, run, made = entry.row, self.spec.run, self.cells
        corpus, recipe = self.opened(row.documents, row.positive), self.read(row.preset, row.set)
        check_step(row.then, words=row.vectors)
        if row.then and row.train:
            return self._behind(entry, seed, backbone)
        needs: dict[str, None] = {}  # in order

        def own(name: str) -> str:
            """For a model that the study trains, its cell's key; for others their name."""
            if name not in self.spec.teachers and name not in preset_names():
                return name
            if name in needed_by:
                problem = f"the model {name} needs itself as a teacher or backbone"
                raise UserError(problem, "give it other teachers or another backbone")
            if name not in self.models:
                model = self.spec.teachers.get(name) or TeacherSettings(preset=name)
                if model.tuned:  # else trials and final runs would have different teachers
                    problem = (
                        f"the teacher {name} has the tuned settings of the row {model.tuned!r}"
                    )
                    raise UserError(
                        problem, "search that row, and give its search.toml with --tuned"
                    )
                row = RowSettings(
                    preset=model.preset, set=model.set, sentences=model.sentences or run.sentences
                )
                taught = PlannedRow(name, row, name)
                self.models[name] = self._cell(
                    taught, model.seed, model.backbone, (*needed_by, name)
                )
            needs[self.models[name]] = None
            return self.models[name]

        def path(name: str) -> str:
            return str(made[name].model.resolve()) if name in made else name

        if (start := own(recipe.encoder.backbone)) in made:
            base = str(made[start].settings["base"])
        else:
            base = start = run.vectors if row.vectors else backbone or run.backbone or start
        overrides = self._overrides(row, recipe, base)
        recipe = self.read(row.preset, overrides)
        check_runnable(recipe)
        if row.train:
            refuse_without_effect(corpus, recipe)
            count = (
                len(training_text(corpus, recipe, None)) if row.sentences is None else row.sentences
            )
            if count < recipe.train.batch_size:
                problem = f"{count} sentences do not fill a batch of {recipe.train.batch_size}"
                raise UserError(problem, "take more sentences, or a smaller train.batch_size")
        for label in row.teachers:
            check_known(f"preset {recipe.name}: the teacher", label, recipe.teachers)
        teachers = {
            label: tuple(map(own, row.teachers.get(label) or table.get("models", ())))
            for label, table in (recipe.teachers if row.train else {}).items()
        }
        # models that the study trains are named by their cells' keys, so the settings hold no paths
        settings = recipe.model_dump(
            mode="json", exclude_none=True, exclude={"name", "description"}
        ) | {"base": base}
        settings["encoder"]["backbone"] = start
        for label, models in teachers.items():
            settings["teachers"][label]["models"] = list(models)
        if row.vectors:
            WordVectors(start)  # which refuses what is no such file
        judging, selecting = self.pairs(tuple(recipe.train.select))
        read = corpus.documents if recipe.pairs else corpus.texts
        others = (
            {start, *(model for models in teachers.values() for model in models)}
            - needs.keys()
            - {STUDENT}
        )
        decides = (
            {
                "files": {name: self.checksum(name) for name in sorted(others)},
                "settings": {
                    k: v
                    for k, v in settings.items()
                    if row.train or run.positives or k == "encoder"
                },
                "seed": seed,
                "threads": run.threads,
                "train": row.train,
                "test": judging,
                "suites": self.measured_on,
                "text": [read().key, row.sentences]
                if row.train or row.then or run.positives
                else None,
                "dev": selecting if row.train else None,
            }
            | ({"then": row.then} if row.then else {})
            | ({"positives": True} if run.positives else {})
        )
        if self.documents:
            decides["documents"] = self.documents.documents().key
        key = _checksum(decides)
        keep_model = not row.vectors and (run.keep_models or bool(needed_by))
        cell = Cell(
            entry.label,
            key,
            self._folder(row, seed, key),
            row,
            run,
            settings,
            overrides,
            path(start),
            {label: tuple(map(path, models)) for label, models in teachers.items()},
            seed,
            row.sentences,
            corpus,
            self.place.data,
            keep_model,
            self.documents,
            tuple(needs),
        )
        made[key] = replace(
            made.get(key, cell), keep_model=keep_model or made.get(key, cell).keep_model
        )
        return key

    def _behind(self, entry: PlannedRow, seed: int, backbone: str | None) -> str:
        """A trained row with a step behind its model. Rows with and without the step share one
        training.
        """
        row = entry.row
        bare = replace(entry, row=row.model_copy(update={"then": ""}))
        trained = self._cell(bare, seed, backbone, needed_by=(f"then = {row.then}",))
        cell = self.cells[trained]
        key = _checksum([trained, row.then])
        self.cells[key] = replace(
            cell,
            label=entry.label,
            key=key,
            folder=self._folder(row, seed, key),
            row=row.model_copy(update={"train": False}),
            backbone=str(cell.model.resolve()),
            needs=(trained,),
            teachers={},
            keep_model=self.spec.run.keep_models,
        )
        return key

    @property
    def corpora(self) -> list[TextSource]:
        """All text that cells learn from."""
        return [*{id(cell.corpus): cell.corpus for cell in self.cells.values()}.values()]

    def _opened(self, documents: str, positive: str) -> TextSource:
        """The text of the run, or the row's own."""
        run = self.spec.run
        named = (run.row_documents[documents],) if documents else run.corpus
        split = None if documents else run.split
        files = corpus_files(named, self.place.data)
        return read_text(
            files, positive=positive or None, split=split, keep_duplicates=run.keep_duplicates
        )

    def _folder(self, row: RowSettings, seed: int, key: str) -> Path:
        return self.place.output / "cells" / f"{Path(row.preset).stem}-seed-{seed}-{key[:8]}"

    def _pairs(self, select: tuple[str, ...]) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
        """Checksums of the pairs that judge a cell, and of those that select its model."""
        run = self.spec.run
        judging, selecting = named_pairs(run.dev, select, run.labels, self.place.data)
        judged = {
            task: {part: pairs.checksum() for part, pairs in parts.items()}
            for task, parts in judging.items()
        }
        return judged, {name: pairs.checksum() for name, pairs in selecting.items()}

    def _overrides(self, row: RowSettings, recipe: Preset, base: str) -> tuple[str, ...]:
        """Common settings, the backbone's, the row's own (which alone may add a component), those
        of the command line.

        The last one wins; then the keys of ``scale`` shrink with the row's share of the sentences.
        """
        needed = self.spec.backbones[base].set if base in self.spec.backbones else ()
        common = [one for one in (*self.spec.run.set, *needed) if has_component(one, recipe)]
        found = (
            *common,
            *row.set,
            *(one for one in self.place.forced if has_component(one, recipe)),
        )
        train = self.read(row.preset, found).train
        share = (
            row.sentences / self.spec.run.sentences
            if row.sentences and self.spec.run.sentences
            else 1.0
        )
        scaled = ((key, share * getattr(train, key.removeprefix("train."))) for key in row.scale)
        return (*found, *(f"{key}={max(1, round(value))}" for key, value in scaled))


def _checksum(decides: Any) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(decides, sort_keys=True).encode())[:16]


def has_component(override: str, recipe: Preset) -> bool:
    """Whether a ``key`` or ``key=value`` is of the run as a whole, or of a component that the
    preset has.
    """
    stage, _, rest = override.partition("=")[0].strip().partition(".")
    label = rest.split(".")[0]
    if stage == READING:
        return recipe.pairs is not None
    if stage not in STAGES:
        return True
    return label in RESERVED or label in (getattr(recipe, stage) or {})


def check_component(override: str, recipes: Iterable[Preset], where: str = "") -> None:
    """Refuse a ``key`` or ``key=value`` that none of the presets takes."""
    if not any(has_component(override, recipe) for recipe in recipes):
        raise UserError(
            f"{where}{override}: no row has such a component", "correct the key, or leave it out"
        )


def corpus_files(patterns: Sequence[str], data: str | None) -> tuple[str, ...]:
    """Files that a study's patterns name, in the current folder or else in the data folder."""
    if not patterns:
        raise UserError("the study names no corpus", "add --documents FILE, or run.corpus")
    found: list[str] = []
    for pattern in patterns:
        places = Path(pattern), Path(data or "", pattern)
        named = [place for place in places if place.exists()][:1]  # a file name may contain * or ?
        globbed = (sorted(Path(at.anchor).glob(str(at.relative_to(at.anchor)))) for at in places)
        matches = [pattern] if is_url(pattern) else named or next(filter(None, globbed), [])
        if not matches:
            raise UserError(
                f"{pattern} does not exist", "check the path, or give --documents or --data"
            )
        found += map(TextPath, matches)
    return tuple(found)
