"""A whole run: preset and text in; a model, its record and a verdict out."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.encoder import save
from isotrope.encoder.checksum import GivenModel, located
from isotrope.errors import UserError
from isotrope.evaluation.sets.columns import ColumnChoice
from isotrope.evaluation.sets.labels import LabelsLike
from isotrope.preset.tables import names_backbone
from isotrope.report.card import save_card
from isotrope.report.outcome import Outcome
from isotrope.store.job import Job
from isotrope.text import TextLike, read_text
from isotrope.training.fit import fit
from isotrope.training.folder import KIND, RunFolder
from isotrope.training.inputs import (
    RunRequest,
    read_inputs,
    resolved_preset,
    untrained_teachers,
)
from isotrope.training.judge import judge, run_card
from isotrope.training.page import write_report
from isotrope.training.pairs import given_labels
from isotrope.training.prepare import prepare
from isotrope.training.processes import process_count, process_number, refuse_several, with_others


class Run(Outcome):
    """A finished training; see `isotrope.training.folder.RunFolder` for what lies in its folder."""

    def __init__(self, job: Job, record: Mapping[str, Any]) -> None:
        """``record`` is empty in processes other than the first."""
        self.job = job
        self.folder = job.folder
        self.record = record

    def report(self, file: str | Path) -> Path:
        """Write the page of the run, an .html file: see `isotrope.training.page.write_report`."""
        return write_report(self.folder, file)


def train(
    documents: TextLike,
    *,
    preset: str | Path | None = None,
    model: GivenModel | None = None,
    labels: "LabelsLike | None" = None,
    columns: ColumnChoice | None = None,
    dev: str | Sequence[str] | None = None,
    output: str | Path | None = None,
    data: str | Path | None = None,
    seed: int = 0,
    max_texts: int | None = None,
    overrides: Iterable[str] = (),
    prompt: str | None = None,
    prompt_name: str | None = None,
    positive_prompt: str | None = None,
    teachers: Mapping[str, GivenModel | Sequence[GivenModel]] | None = None,
    train_teachers: bool = False,
    text_column: str | None = None,
    title_column: str | None = None,
    held_out: int = 0,
    positive: str | None = None,
    negatives: Iterable[str] = (),
    split: str | None = None,
    keep_duplicates: bool = False,
    log_to: Iterable[str] = (),
    restart: bool = False,
    console: Console | None = None,
) -> Run:
    """Turn text without labels into a better sentence-embedding model, and say whether it is
    better.

    Args:
        documents: text of any kind, as are the columns of tables below: see
            `isotrope.text.read_text`.
        preset: the method: the name of a shipped preset, or a .toml file; None: ``adapt`` for a
            sentence-embedding model, ``simcse`` for a raw language model.
        model: what to begin with: a name, a folder, or a loaded model, which stays as it is; None:
            the preset's.
        labels: what judges the result: labels of your own (see
            `isotrope.evaluation.sets.labels.read_labels`), ``sts`` (seven test sets), ``stsb``,
            ``none``. None takes ``sts`` if a data folder is known, else half of the user's own dev
            pairs.
        columns: of such labels, in a table: "question,answer".
        dev: what chooses the checkpoint: pairs (``stsb``, ``sickr``, .tsv files), or
            ``transfer-dev``, the seven transfer tasks. With several, their mean chooses. ``none``
            keeps the last checkpoint. None takes the preset's sets if a data folder is known, else
            ``none``.
        output: the folder for everything that the training writes; None: a temporary one, deleted
            with the result.
        data: the folder that holds ``senteval/``; None takes ISOTROPE_DATA.
        seed: of the head, the order, the dropout and the random steps.
        max_texts: train on a random sample of this size; None takes all.
        overrides: ``key=value`` over the preset's keys.
        prompt: words before every text, such as "query: "; None takes the preset's, or the model's
            default prompt.
        prompt_name: the same, by the name of one of the model's own prompts.
        positive_prompt: words before positives and hard negatives; None: as before all texts.
        teachers: name of a teacher, or of one of its models in the preset -> the models to take
            instead.
        train_teachers: train the presets among the teachers first, on the same text and from the
            same model, unless a preset names its own, such as simcse-bert-base. Their folders are
            in ``OUTPUT.teachers``.
        text_column: the column of the texts.
        title_column: the column of the documents' titles.
        held_out: random documents to leave out of training: `isotrope.text.Documents.split` with
            this seed.
        positive: the column of the positives.
        negatives: the columns of hard negatives.
        split: ``sentences`` trains on the sentences of the texts; None takes each text as it is.
        keep_duplicates: train on every text, also on one that occurred before.
        log_to: trackers that transformers knows (``tensorboard``, ``wandb``, …).
        restart: begin anew, whatever an earlier call left in the folder. Otherwise the same call
            goes on where it stopped, and the result is that of a run without interruption.
        console: where to report; None reports to the terminal.

    Raises:
        UserError: a mistake of the user's; raised before long work if it can be found then.
        Stopped: Ctrl-C, or another process has ended; the same call goes on.
    """
    console = console or plain_console(quiet=process_number() > 0)
    _check_output(output)
    request = RunRequest(
        text=read_text(
            documents,
            text_column=text_column,
            title_column=title_column,
            positive=positive,
            negatives=negatives,
            split=split,
            keep_duplicates=keep_duplicates,
        ),
        preset=preset,
        model=None if model is None else located(model),
        labels=given_labels(labels, columns),
        dev=dev,
        data=data,
        seed=seed,
        max_texts=max_texts,
        overrides=list(overrides),
        prompt=prompt,
        prompt_name=prompt_name,
        positive_prompt=positive_prompt,
        teachers=_located_teachers(teachers or {}),
        held_out=held_out,
        log_to=list(log_to),
    )
    if train_teachers:
        request = _with_trained_teachers(request, output, restart, console)
    return _run(request, output, restart, console)


def _check_output(output: str | Path | None) -> None:
    if process_count() > 1 and output is None:
        problem = "several processes need a folder that all can read"
        raise UserError(problem, "name an output", code="no-output")


def _located_teachers(
    teachers: Mapping[str, GivenModel | Sequence[GivenModel]],
) -> dict[str, list[str]]:
    """Name -> the names or folders of its models."""
    folders = {}
    for name, models in teachers.items():
        if isinstance(models, GivenModel):
            models = [models]
        folders[name] = [located(model) for model in models]
    return folders


def _run(request: RunRequest, output: str | Path | None, restart: bool, console: Console) -> Run:
    """Prepare, fit and judge, unless the folder holds the result already."""
    is_first = process_number() == 0
    with watch("reading the text", console):
        inputs = read_inputs(request)
    job = Job(output, KIND, inputs.identity, [request.text], restart=restart)
    with with_others(), job.held() if is_first else nullcontext():
        # The first process has begun anew; another may still see what was there before.
        result = None if restart else job.result()
        if result is not None:
            return Run(job, result if is_first else {})

        with watch("preparing", console):
            plan = prepare(inputs, job, console)
        outcome = fit(plan)
        if not is_first:
            return Run(job, {})

        console.print("saving the model")
        folder = RunFolder(job.folder)
        save(plan.model, folder.model)
        record = judge(plan, outcome)
        save_card(folder.model, run_card(plan, record))
        return Run(job, job.finish(record))


def _with_trained_teachers(
    request: RunRequest, output: str | Path | None, restart: bool, console: Console
) -> RunRequest:
    """Train the presets among the teachers -> the request with their models in their place."""
    refuse_several("train_teachers")
    names = untrained_teachers(resolved_preset(request))
    if not names:
        return request
    count = len(names) + 1
    teachers = dict(request.teachers)
    # A teacher is trained as the student is; the student's other settings are of its own method.
    shared_tables = ("train.", "encoder.")
    overrides = [each for each in request.overrides if each.startswith(shared_tables)]
    for number, name in enumerate(names, start=1):
        console.print(f"training {number} of {count}: the teacher {name}")
        teacher_request = replace(
            request,
            preset=name,
            model=None if names_backbone(name) else request.model,
            labels="none",
            overrides=overrides,
            teachers={},
        )
        folder = Path(f"{output}.teachers", name) if output else None
        run = _run(teacher_request, folder, restart, console)
        teachers[name] = [located(run.model)]
    console.print(f"training {count} of {count}: the student")
    return replace(request, teachers=teachers)
