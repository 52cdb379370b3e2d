"""The main job on text that every machine has, offline: train on docstrings, whiten, and tell what is better."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from isotrope.cards.card import add_verdict
from isotrope.console.plain import plain_console
from isotrope.console.progress import progress, watch
from isotrope.encoder import load
from isotrope.errors import UserError
from isotrope.evaluation.sets.similarity import agreement
from isotrope.evaluation.significance import Comparison
from isotrope.post.whitening import FULL_WHITENING
from isotrope.quickstart.docstrings import Docstrings, gather
from isotrope.quickstart.measures import DECISION, ModelMeasures, compare_measures, decide, measure_model
from isotrope.quickstart.page import write_page
from isotrope.quickstart.table import judgement
from isotrope.run.environment import environment
from isotrope.run.settings import RunSettings
from isotrope.run.train import run_training
from isotrope.run.whiten import whiten
from isotrope.store.atomic import write_json, write_text
from isotrope.store.lock import hold
from isotrope.store.mark import check_place, kind_of, remove
from isotrope.store.records import Record, read_record
from isotrope.types import Encoder

BACKBONE, PRESET = "isotrope/tiny", "simcse-tiny"
POOLING = "first_last"  # before and after: the preset's, and the backbone's best without training
OVERRIDES = (f"encoder.pooling={POOLING}", "train.eval_steps=100", "train.save_steps=100")
TEXT, RESULT = "docstrings.json", "quickstart.json"


def quickstart(
    output: str | Path = "isotrope-quickstart",
    *,
    seed: int = 0,
    backbone: str = BACKBONE,
    text: Docstrings | None = None,
    overrides: Iterable[str] = (),
    console: Console | None = None,
) -> dict[str, Any]:
    """Train ``backbone`` on the docstrings of the installed packages, whiten it, and judge it at every stage.

    No label is used. Called again after a stop or a kill, it goes on; after its end, it gives the same result again.

    Args:
        output: the folder, for the gathered text, ``run/`` of the training, ``model/``, the new one, and
            ``quickstart.json``.
        seed: of the training and of the tests' resamples.
        backbone: the model to begin with.
        text: what was gathered; by default `isotrope.quickstart.docstrings.gather()`.
        overrides: ``key=value`` over the preset's keys.
        console: where to report; None reports to the terminal.

    Returns:
        What ``quickstart.json`` holds: ``text`` (counts), ``measures`` (of the four models, with intervals),
        ``verdict``, ``seconds``, …

    Raises:
        UserError: the folder is not ours, is in use, or holds another seed's result; too little text is installed.
        Stopped: Ctrl-C while training.
    """
    console, folder = console or plain_console(), Path(output)
    identity = {"seed": seed, "backbone": backbone, "overrides": [*OVERRIDES, *overrides]}
    with hold(folder, "quickstart", again="give the same command again"):
        if (folder / RESULT).is_file() and kind_of(folder / "model") == "model":
            return _finished(folder, identity)
        for name in ("model", "whitened"):
            check_place(folder / name, "model")
        return _make(folder, identity, text, console)


def _make(folder: Path, identity: Mapping[str, Any], text: Docstrings | None, console: Console) -> dict[str, Any]:
    seconds: dict[str, float] = {}
    seed, backbone, began = identity["seed"], identity["backbone"], time.monotonic()
    with watch("loading", console):
        model, resumed = load(backbone, POOLING), (folder / TEXT).is_file()
    with _timed(seconds, "gathering"):
        text = Docstrings.read(folder / TEXT) if resumed else _gathered(text, folder, console)
        corpus = folder / "sentences.txt"
        write_text(corpus, "\n".join(text.sentences) + "\n")
    console.print(f"{len(text.sentences):,} sentences of {len(text.packages)} packages to train on")
    console.print(f"{len(text.queries):,} docstrings of {len(text.held_out)} other packages to judge by")
    with _timed(seconds, "before"), watch("measuring", console, "the model to begin with"):
        found = {"before": measure_model(model, text)}
    with _timed(seconds, "whitened"), watch("whitening", console, "the model to begin with"):
        found["whitened"] = measure_model(_whitened(backbone, corpus, folder / "whitened", POOLING), text)
    with _timed(seconds, "training"):
        settings = RunSettings(
            corpus=corpus, output=folder / "run", preset=PRESET, backbone=backbone, dev="none", test="none", seed=seed,
            overrides=identity["overrides"], resume=True,
        )  # fmt: skip
        run = run_training(settings, console)
    with _timed(seconds, "after"), watch("measuring", console, "the new model"):
        found["trained"] = measure_model(load(run.model), text)
        found["after"] = measure_model(new := _whitened(run.model, corpus, folder / "model"), text)
    tests = compare_measures(found["before"], found["after"], seed)
    result = {
        **identity,
        "preset": PRESET,
        "text": {
            "packages": len(text.packages),
            "held_out_packages": text.held_out,
            "sentences_found": text.found,
            "sentences_shared_with_held_out": text.shared,
            "sentences_trained_on": len(text.sentences),
            "queries": len(text.queries),
        },
        "measures": _measures(found, tests),
        "grading_agreement": agreement(),
        "verdict": decide(tests),
        "rule": DECISION,
        "seconds": {**seconds, "total": time.monotonic() - began},
        "resumed": resumed,  # then the seconds are those of the last call alone
        "peak_memory_mb": _peak_memory_mb(),
        "environment": environment(),
    }
    add_verdict(folder / "model", judgement(result))
    with console.status("drawing the report"):
        write_page(result, folder, model, new)
    write_json(folder / RESULT, result)
    return result


def _finished(folder: Path, identity: Mapping[str, Any]) -> Record:
    """The result that is there, if it is one of the same settings."""
    remedy = "choose another --output"
    result = read_record(folder / RESULT, list(identity), f"delete it, or {remedy}")
    for key, value in identity.items():
        if result[key] != value:
            raise UserError(f"{folder} holds a result with {key} = {result[key]!r}, not {value!r}", remedy)
    return result


def _gathered(text: Docstrings | None, folder: Path, console: Console) -> Docstrings:
    if text is None:
        with progress("read the docstrings of", None, console, unit="packages") as bar:
            text = gather(progress=lambda done, total: bar.update(done, total=total))
    text.write(folder / TEXT)
    return text


def _whitened(model: str | Path, corpus: Path, output: Path, pooling: str | None = None) -> Encoder:
    """The model with whitening as its last layer, fitted on the text."""
    if output.exists():  # an earlier call was stopped after it
        remove(output)
    whiten(model, corpus, output, pooling=pooling, exponent=FULL_WHITENING, compare=False)  # the quickstart compares
    encoder: Encoder = load(output)
    return encoder


def _measures(found: Mapping[str, ModelMeasures], tests: Mapping[str, Comparison]) -> dict[str, dict[str, float]]:
    """Measure -> the figures of the four models, and of the test where there is one."""
    figures = {model: measures.figures for model, measures in found.items()}
    shown = ("before", "after", "difference", "low", "high", "p", "resamples")
    return {
        name: {model: of[name] for model, of in figures.items()}
        | ({key: asdict(tests[name])[key] for key in shown} if name in tests else {})
        for name in figures["before"]
    }


def _peak_memory_mb() -> int | None:
    """The most memory that this process held so far; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # pragma: no cover  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1 << 20 if sys.platform == "darwin" else 1 << 10))


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    seconds[name] = time.monotonic() - began
