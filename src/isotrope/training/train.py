"""A whole run: preset and text in; a model, its record and a verdict out."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from isotrope.console.plain import plain_console
from isotrope.console.progress import duration, watch
from isotrope.encoder import load, save
from isotrope.encoder.checksum import GivenModel, located
from isotrope.encoder.embed import vectors_of
from isotrope.encoder.length import limit_length
from isotrope.errors import UserError
from isotrope.preset.preset import Preset
from isotrope.report.card import save_card
from isotrope.report.outcome import Outcome
from isotrope.store.job import Job
from isotrope.text import TextSource, read_text
from isotrope.text.permutation import evenly
from isotrope.training.fit import fit
from isotrope.training.folder import KIND, RunFolder
from isotrope.training.inputs import read_inputs, resolved_preset, training_text, untrained_teachers
from isotrope.training.judge import judge, run_card
from isotrope.training.page import write_report
from isotrope.training.pairs import given_labels
from isotrope.training.prepare import prepare
from isotrope.training.processes import process_count, process_number, refuse_several, with_others

PROBED = 64  # texts that say how fast a model reads
# a training step on a text, read twice, costs about as much as encoding it so many times
STEP_COST = 8


class Run(Outcome):
    """A finished training; see `isotrope.training.folder.RunFolder` for what lies in its folder."""

    def __init__(self, job: Job, record: Mapping[str, Any]) -> None:
        """``record`` is empty in processes other than the first."""
        self.job, self.folder, self.record = job, job.folder, record

    def report(self, file: str | Path) -> Path:
        """Write the page of the run, an .html file: see `isotrope.training.page.write_report`."""
        return write_report(self.folder, file)


def train(
    documents: Any,
    *,
    preset: str | Path | None = None,
    model: GivenModel | None = None,
    labels: Any = None,
    columns: str | Sequence[str] | None = None,
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
        documents: text of any kind, as are the columns of tables below: see `isotrope.text.read_text`.
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
            same model. Their folders are in ``OUTPUT.teachers``.
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
    first = process_number() == 0
    console = console or plain_console(quiet=not first)
    if train_teachers:
        refuse_several("train_teachers")
    if process_count() > 1 and output is None:
        raise UserError("several processes need a folder that all can read", "name an output")
    opened = read_text(
        documents,
        text_column=text_column,
        title_column=title_column,
        positive=positive,
        negatives=negatives,
        split=split,
        keep_duplicates=keep_duplicates,
    )
    labels, overrides, log_to = given_labels(labels, columns), list(overrides), list(log_to)
    common: dict[str, Any] = {
        "model": None if model is None else located(model),
        "dev": dev,
        "data": data,
        "seed": seed,
        "max_texts": max_texts,
        "prompt": prompt,
        "prompt_name": prompt_name,
        "positive_prompt": positive_prompt,
        "held_out": held_out,
        "log_to": log_to,
    }
    named = {
        name: [located(one) for one in ([given] if isinstance(given, GivenModel) else given)]
        for name, given in (teachers or {}).items()
    }
    method = resolved_preset(preset, common["model"], overrides, named) if train_teachers else None
    untrained = untrained_teachers(method) if method else []
    count = len(untrained) + 1
    if method and untrained:
        seconds = count * _seconds(
            opened, method, common["model"] or method.encoder.backbone, max_texts
        )
        console.print(
            f"{count} trainings, of {', '.join(untrained)} first, take about {duration(seconds)}"
        )
    for place, name in enumerate(untrained, start=1):
        console.print(f"training {place} of {count}: the teacher {name}")
        taught = train(
            opened,
            preset=name,
            output=output and Path(f"{output}.teachers", name),
            labels="none",
            restart=restart,
            overrides=[one for one in overrides if one.startswith(("train.", "encoder."))],
            console=console,
            **common,
        )
        named[name] = [located(taught.model)]
    if untrained:
        console.print(f"training {count} of {count}: the student")
    with watch("reading the text", console):
        inputs = read_inputs(
            opened, preset=preset, labels=labels, overrides=overrides, teachers=named, **common
        )
    job = Job(output, KIND, inputs.identity, [opened], restart=restart)
    folder = RunFolder(job.folder)
    with with_others(), job.held() if first else nullcontext():
        # the first process has begun anew; another may still see what was there before
        if (found := None if restart else job.result()) is not None:
            return Run(job, found if first else {})
        with watch("preparing", console):
            plan = prepare(inputs, job, console)
        outcome = fit(plan)
        if not first:
            return Run(job, {})
        console.print("saving the model")
        save(plan.model, folder.model)
        result = judge(plan, outcome)
        save_card(folder.model, run_card(plan, result))
        return Run(job, job.finish(result))


def _seconds(text: TextSource, method: Preset, model: str, max_texts: int | None) -> float:
    """About how long a training takes on this machine, by how long it takes to encode some of its
    texts.
    """
    corpus, encoder = training_text(text, method, max_texts), load(model)
    some = corpus.texts(np.array(evenly(len(corpus), PROBED)))
    with limit_length(encoder, method.train.max_length):
        vectors_of(encoder, some[:2])  # the first call is slower
        began = time.monotonic()
        vectors_of(encoder, some, batch_size=PROBED)
    texts = method.train.epochs * min(max_texts or len(corpus), len(corpus))
    return STEP_COST * texts * (time.monotonic() - began) / len(some)
