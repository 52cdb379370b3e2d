"""What a study runs: cells. A cell is a row with one seed, or a shared teacher; its key is what
decides its result.
"""

import itertools
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
from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import FEWEST_TEXTS, FEWEST_WORDS, make_document_tasks
from isotrope.evaluation.sets.files import data_checksum, data_folder
from isotrope.evaluation.suite import SUITES as MEASURED_BY
from isotrope.evaluation.suite import checked_tasks
from isotrope.preset.preset import RESERVED, Preset, check_runnable, preset_names, read_preset
from isotrope.store.files import Record, file_checksum
from isotrope.store.remote import is_url
from isotrope.study.cell import THREADS, Cell
from isotrope.study.rows import PlannedRow, check_step, expand_rows, with_share
from isotrope.study.spec import RowSettings, Settings, Spec, TeacherSettings
from isotrope.text import TextPath, TextSource, read_text
from isotrope.training.inputs import STUDENT, refuse_without_effect, training_text
from isotrope.training.pairs import SHIPPED_DEV, dev_names, evaluation_pairs


@dataclass(frozen=True, slots=True)
class StudyPaths:
    """Where a study writes, and where its data are."""

    output: Path
    data: str | None = None  # the folder that holds ``senteval/``


class StudyPlan:
    """All cells of a study. Everything is checked that can be checked before a model is loaded.

    A teacher comes before the cells that need it. Equal cells of several rows are one.

    Args:
        only: rows to keep; all if empty.
        overrides: ``key=value`` over every cell whose preset has that component.
    """

    def __init__(
        self,
        spec: Spec,
        paths: StudyPaths,
        only: Sequence[str] = (),
        overrides: Sequence[str] = (),
    ) -> None:
        self.spec = spec
        self.paths = paths
        self.overrides = tuple(overrides)
        self.inputs = StudyInputs(spec, paths)
        self.entries = expand_rows(spec, only)
        self.cells: dict[str, Cell] = {}  # key -> cell
        self.rows: dict[str, dict[int, str]] = {}  # label -> seed -> key
        self.models: dict[str, str] = {}  # a teacher's name -> key

        for label, entry in self.entries.items():
            seeds = range(spec.run.seeds if entry.row.train else 1)
            try:
                self.rows[label] = {seed: self._add_cell(entry, seed) for seed in seeds}
            except UserError as error:
                raise UserError(
                    f"study {spec.name}: row {label!r}: {error.problem}",
                    error.remedy,
                    code=error.code,
                ) from error
        self._check_common_settings()

    @property
    def corpora(self) -> list[TextSource]:
        """All text that cells learn from."""
        return list(dict.fromkeys(cell.corpus for cell in self.cells.values()))

    def cell(self, label: str, seed: int = 0) -> Cell:
        """The cell of a row and a seed."""
        return self.cells[self.rows[label][seed]]

    def _check_common_settings(self) -> None:
        """Refuse a setting that no row's preset has. The study's own may be for a row left out."""
        preset_of = self.inputs.preset
        cells = self.cells.values()
        planned = [preset_of(cell.row.preset, cell.overrides) for cell in cells]
        rows = self.spec.rows.values()
        in_file = [preset_of(row.preset, row.set) for row in rows]
        for setting in self.spec.run.set:
            check_component(setting, planned + in_file)
        for setting in self.overrides:
            check_component(setting, planned)

    def _add_cell(self, entry: PlannedRow, seed: int, needed_by: Sequence[str] = ()) -> str:
        """Add a cell, and the cells that it needs, to the plan -> its key.

        ``needed_by`` are the models whose training waits for this one.
        """
        row = entry.row
        check_step(row.then)
        if row.then and row.train:
            return self._add_step_behind(entry, seed)
        preset = self.inputs.preset(row.preset, row.set)
        start = self._start(row, preset, needed_by)
        base = self.cells[start].base if start in self.cells else start

        corpus = self.inputs.text_of(row, preset)
        if entry.share is not None:
            row = with_share(row, entry.share, len(training_text(corpus, preset)))
        overrides = self._overrides(row, preset, base, corpus)
        preset = self.inputs.preset(row.preset, overrides)
        _check_row(row, preset, corpus, start)
        teachers = self._teachers(row, preset, needed_by)

        models = dict.fromkeys(itertools.chain([start], *teachers.values()))
        needs = tuple(model for model in models if model in self.cells)
        untrained = models.keys() - {*needs, STUDENT}
        settings = _settings(preset, base, start, teachers)
        decides = self.inputs.key_record(row, preset, settings, corpus)
        decides["seed"] = seed
        decides["files"] = {name: self.inputs.checksum(name) for name in sorted(untrained)}
        key = _checksum(decides)
        planned = self.cells.get(key)  # an equal cell of another row stays
        self.cells[key] = planned or Cell(
            label=entry.label,
            key=key,
            output=self.paths.output,
            row=row,
            run=self.spec.run,
            settings=settings,
            overrides=overrides,
            backbone=self._model_path(start),
            teachers={label: tuple(map(self._model_path, teachers[label])) for label in teachers},
            seed=seed,
            corpus=corpus,
            data=self.paths.data,
            documents=self.inputs.documents,
            needs=needs,
        )
        if needed_by:
            self.cells[key] = replace(self.cells[key], keep_model=True)
        return key

    def _add_step_behind(self, entry: PlannedRow, seed: int) -> str:
        """Add a trained row with a step behind its model -> its key. Rows with and without the step
        share one training.
        """
        row = entry.row
        without_step = row.model_copy(update={"then": ""})
        needed_by = [f"then = {row.then}"]
        trained = self._add_cell(replace(entry, row=without_step), seed, needed_by)
        cell = self.cells[trained]
        key = _checksum([trained, row.then])
        changes = {"train": False, "sentences": cell.row.sentences}
        self.cells[key] = replace(
            cell,
            label=entry.label,
            key=key,
            row=row.model_copy(update=changes),
            backbone=str(cell.model.resolve()),
            needs=(trained,),
            teachers={},
            keep_model=False,
        )
        return key

    def _start(self, row: RowSettings, preset: Preset, needed_by: Sequence[str]) -> str:
        """What the training begins with: a model's name, or the key of the cell that trains it."""
        start = self._reference(preset.encoder.backbone, needed_by)
        if start in self.cells:
            return start
        if row.vectors:
            return self.spec.run.vectors
        return self.spec.run.backbone or start

    def _reference(self, name: str, needed_by: Sequence[str]) -> str:
        """For a model that the study trains, its cell's key; for others their name."""
        if name in self.models:
            return self.models[name]
        if name not in self.spec.teachers and name not in preset_names():
            return name
        if name in needed_by:
            raise UserError(
                f"the model {name} needs itself as a teacher or backbone",
                "give it other teachers or another backbone",
                code="model-needs-itself",
            )
        teacher = self.spec.teachers.get(name) or TeacherSettings(preset=name)
        if teacher.tuned:  # else trials and final runs would have different teachers
            raise UserError(
                f"the teacher {name} has the tuned settings of the row {teacher.tuned!r}",
                "search that row, and give its search.toml with --tuned",
                code="no-settings",
            )
        row = RowSettings(
            preset=teacher.preset,
            set=teacher.set,
            sentences=teacher.sentences or self.spec.run.sentences,
        )
        entry = PlannedRow(name, row, name)
        key = self._add_cell(entry, teacher.seed, (*needed_by, name))
        self.models[name] = key
        return key

    def _teachers(
        self, row: RowSettings, preset: Preset, needed_by: Sequence[str]
    ) -> dict[str, list[str]]:
        """Label of a teacher -> its models, each a name or a cell's key."""
        if not row.train:
            return {}
        teachers = {}
        for label, table in preset.teachers.items():
            names = table.get("models", ())
            teachers[label] = [self._reference(name, needed_by) for name in names]
        return teachers

    def _overrides(
        self, row: RowSettings, preset: Preset, base: str, corpus: TextSource
    ) -> Settings:
        """Common settings, the backbone's, the row's own (which alone may add a component), those
        of the command line.

        The last one wins; then the keys of ``scale`` shrink with the row's share of the sentences.
        """
        common = self.spec.run.set
        if base in self.spec.backbones:
            common += self.spec.backbones[base].set
        first = _present(common, preset)
        last = _present(self.overrides, preset)
        overrides = (*first, *row.set, *last)
        if not row.scale:
            return overrides
        train = self.inputs.preset(row.preset, overrides).train
        total = self.spec.run.sentences or len(corpus.texts())
        share = (row.sentences or total) / total
        for key in row.scale:
            steps = getattr(train, key.removeprefix("train."))
            shrunk = max(1, round(share * steps))
            overrides += (f"{key}={shrunk}",)
        return overrides

    def _model_path(self, reference: str) -> str:
        """The folder of a model that the study trains; the name of any other."""
        if reference in self.cells:
            return str(self.cells[reference].model.resolve())
        return reference


class StudyInputs:
    """What a study reads: presets, text, pairs, models and suites, each read once."""

    def __init__(self, spec: Spec, paths: StudyPaths) -> None:
        self.run = spec.run
        self.data = paths.data
        self.preset = cache(read_preset)
        self.pairs = cache(self._read_pairs)
        self.checksum = cache(_model_checksum)
        self._text = cache(self._read_text)
        self.documents = self._documents(spec)
        self.measured_on = self._measured_on()
        own_pairs = set(dev_names(spec.run.dev or ())) - SHIPPED_DEV
        if spec.run.test == "dev-half" and not own_pairs:
            raise UserError(
                f"study {spec.name}: run.test = 'dev-half' without dev pairs of your own",
                "add --dev FILE.tsv, or judge by sts, stsb or none",
                code="no-dev-pairs",
            )

    def _documents(self, spec: Spec) -> TextSource | None:
        """The documents whose tasks judge too."""
        if not self.run.documents:
            return None
        source = read_text(corpus_files(self.run.documents, self.data))
        if not make_document_tasks([*source.documents().each()]).tasks:
            raise UserError(
                f"study {spec.name}: documents: too few for a task",
                f"name at least {FEWEST_TEXTS} documents of {FEWEST_WORDS} words or more",
                code="too-few-documents",
            )
        return source

    def _measured_on(self) -> Record:
        """Suite -> checksum of its data, and how it measures."""
        measured_on: Record = {}
        for suite, settings in self.run.suites.items():
            checked_tasks(suite, settings.tasks or None, settings.setting)
            folders = MEASURED_BY[suite].folders
            checksum = data_checksum(data_folder(self.data), folders)
            measured_on[suite] = [checksum, settings.model_dump(mode="json")]
        return measured_on

    def key_record(
        self, row: RowSettings, preset: Preset, settings: Record, corpus: TextSource
    ) -> Record:
        """All that a cell's result depends on, beside the files of its models and its seed: its key
        is made of this. Only what trains depends on the settings of training.
        """
        run = self.run
        judging, selecting = self.pairs(tuple(preset.train.select))
        decides: Record = {
            "settings": {"encoder": settings["encoder"]},
            "threads": THREADS,
            "train": row.train,
            "test": judging,
            "suites": self.measured_on,
            "text": None,
            "dev": selecting if row.train else None,
        }
        if row.train or run.positives:
            decides["settings"] = settings
        if row.train or row.then or run.positives:
            text_key = corpus.documents().key if preset.pairs else corpus.texts().key
            decides["text"] = [text_key, row.sentences]
        if row.then:
            decides["then"] = row.then
        if run.positives:
            decides["positives"] = True
        if self.documents:
            decides["documents"] = self.documents.documents().key
        return decides

    def text_of(self, row: RowSettings, preset: Preset) -> TextSource:
        """What a row reads. A preset that draws pairs reads whole documents, of which none is left
        out.
        """
        keep_duplicates = self.run.keep_duplicates and preset.pairs is None
        return self._text(row.documents, row.positive, keep_duplicates)

    def _read_text(self, documents: str, positive: str, keep_duplicates: bool) -> TextSource:
        """The text of the run, or that of a row with ``documents`` of its own."""
        names = self.run.corpus
        if documents:
            names = (self.run.row_documents[documents],)
        return read_text(
            corpus_files(names, self.data),
            positive=positive or None,
            keep_duplicates=keep_duplicates,
        )

    def _read_pairs(self, select: tuple[str, ...]) -> tuple[Record, Record]:
        """Checksums of the pairs that judge a cell, and of those that select its model."""
        run = self.run
        judging, selecting = evaluation_pairs(run.dev, select, run.labels, self.data)
        judging_checksums = {}
        for task, sets in judging.items():
            judging_checksums[task] = {name: pairs.checksum() for name, pairs in sets.items()}
        selecting_checksums = {name: pairs.checksum() for name, pairs in selecting.items()}
        return judging_checksums, selecting_checksums


def _model_checksum(name: str) -> str:
    path = Path(name)
    return file_checksum(path) if path.is_file() else files_checksum(name)


def _check_row(row: RowSettings, preset: Preset, corpus: TextSource, start: str) -> None:
    """Refuse a row that cannot run: also a text that does not fill a batch, and a sample that is
    larger than the text.
    """
    check_runnable(preset)
    if row.vectors:
        WordVectors(start)  # which refuses what is no such file
    if not row.train:
        return

    refuse_without_effect(corpus, preset)
    total = len(training_text(corpus, preset))
    count = total if row.sentences is None else row.sentences
    if count > total:
        raise UserError(
            f"{count} sentences of a text that has {total}",
            f"take at most {total}, or leave --sentences out for all of them; equal lines count "
            "once, unless --keep-duplicates is given",
            code="sample-larger-than-text",
        )
    if count < preset.train.batch_size:
        raise UserError(
            f"{count} sentences do not fill a batch of {preset.train.batch_size}",
            "take more sentences, or a smaller train.batch_size",
            code="batch-larger-than-text",
        )


def _settings(preset: Preset, base: str, start: str, teachers: Mapping[str, list[str]]) -> Record:
    """The resolved preset. Models that the study trains are named by their cells' keys, so that it
    holds no paths.
    """
    settings = preset.model_dump(mode="json", exclude_none=True, exclude={"name", "description"})
    settings["base"] = base
    settings["encoder"]["backbone"] = start
    for label, models in teachers.items():
        settings["teachers"][label]["models"] = models
    return settings


def _checksum(decides: Any) -> str:
    text = json.dumps(decides, sort_keys=True)
    return xxhash.xxh3_128_hexdigest(text.encode())[:16]


def _present(settings: Iterable[str], preset: Preset) -> list[str]:
    """Those settings whose component the preset has."""
    return [setting for setting in settings if has_component(setting, preset)]


def has_component(override: str, preset: Preset) -> bool:
    """Whether a ``key`` or ``key=value`` is of the run as a whole, or of a component that the
    preset has.
    """
    key, _, _ = override.partition("=")
    stage, _, path = key.strip().partition(".")
    label, _, _ = path.partition(".")
    if stage == READING:
        return preset.pairs is not None
    if stage not in STAGES:
        return True
    return label in RESERVED or label in (getattr(preset, stage) or {})


def check_component(override: str, presets: Iterable[Preset], where: str = "") -> None:
    """Refuse a ``key`` or ``key=value`` that none of the presets takes."""
    if not any(has_component(override, preset) for preset in presets):
        raise UserError(
            f"{where}{override}: no row has such a component",
            "correct the key, or leave it out",
            code="no-such-component",
        )


def corpus_files(names: Sequence[str], data: str | None) -> tuple[str, ...]:
    """Files and folders that a study names, in the current folder or else in the data folder."""
    if not names:
        raise UserError(
            "the study names no corpus", "add --documents FILE, or run.corpus", code="no-corpus"
        )
    return tuple(TextPath(_existing_path(name, data)) for name in names)


def _existing_path(name: str, data: str | None) -> str:
    if is_url(name):
        return name
    for path in (Path(name), Path(data or "", name)):
        if path.exists():
            return str(path)
    raise UserError(
        f"{name} does not exist",
        "check the path, or give --documents or --data",
        code="missing-path",
    )
