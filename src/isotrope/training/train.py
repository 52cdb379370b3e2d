"""A whole run: preset and text in; a model, its record and a verdict out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.encoder import save
from isotrope.report.card import save_card
from isotrope.training.card import run_card
from isotrope.training.fit import fit
from isotrope.training.folder import RunFolder
from isotrope.training.inputs import read_inputs, refuse_other_run
from isotrope.training.judge import judge, measure
from isotrope.training.prepare import prepare
from isotrope.training.processes import process_number, with_others
from isotrope.training.settings import RunSettings


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run. ``result`` is what ``result.json`` holds; it is empty in processes other than the first."""

    folder: Path
    result: Mapping[str, Any]

    @property
    def model(self) -> Path:
        """The new model, in plain sentence-transformers format; without the head unless ``train.keep_head``."""
        return RunFolder(self.folder).model


def train(
    corpus: str | Path | Sequence[str | Path],
    *,
    output: str | Path,
    preset: str | Path = "simcse",
    backbone: str | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
    positive_prompt: str | None = None,
    teachers: Mapping[str, Sequence[str]] | None = None,
    dev: str | Sequence[str] | None = None,
    test: str | None = None,
    data: str | Path | None = None,
    seed: int = 0,
    sentences: int | None = None,
    overrides: Iterable[str] = (),
    text: str | None = None,
    title: str | None = None,
    held_out: int = 0,
    positive: str | None = None,
    negatives: Iterable[str] = (),
    split: str | None = None,
    keep_duplicates: bool = False,
    log_to: Iterable[str] = (),
    resume: bool = False,
    console: Console | None = None,
) -> Run:
    """Turn plain sentences into a better sentence-embedding model, and say whether it is better.

    `RunSettings` describes each setting. ``console`` is where to report; None reports to the terminal.

    Raises:
        UserError: a mistake of the user's; raised before long work if it can be found then.
        Stopped: Ctrl-C, or another process has ended; the run can be resumed.
    """
    settings = RunSettings(
        corpus=corpus, output=output, preset=preset, backbone=backbone, prompt=prompt, prompt_name=prompt_name,
        positive_prompt=positive_prompt, teachers=teachers or {}, dev=dev, test=test, data=data, seed=seed,
        sentences=sentences, overrides=tuple(overrides), text=text, title=title, held_out=held_out,
        positive=positive, negatives=tuple(negatives), split=split,
        keep_duplicates=keep_duplicates, log_to=tuple(log_to), resume=resume,
    )  # fmt: skip
    return run_training(settings, console)


def run_training(settings: RunSettings, console: Console | None = None) -> Run:
    """As `train`, from a record of settings.

    Raises:
        UserError: as `train`.
        Stopped: as `train`.
    """
    first = process_number() == 0
    console = console or plain_console(quiet=not first)
    folder = RunFolder(settings.output)
    with with_others(), folder.hold() if first else nullcontext():
        with watch("reading the settings", console):
            inputs = read_inputs(settings)
        refuse_other_run(folder, inputs.identity, settings.resume or not first)
        if folder.finished:
            return Run(folder.path, folder.result() if first else {})
        with watch("preparing", console):
            plan = prepare(inputs, folder, console)
        measure(plan, "before")
        outcome = fit(plan)
        if not first:
            return Run(folder.path, {})
        console.print("saving the model")
        save(plan.model, folder.model)
        result = judge(plan, outcome)
        save_card(folder.model, run_card(plan, result))
        folder.write_result(result)
        return Run(folder.path, folder.result())
