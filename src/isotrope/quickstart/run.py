"""The main job on documents that every machine has, offline: improve a model for them, and judge it on others."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from isotrope.console.plain import plain_console
from isotrope.console.progress import progress, watch
from isotrope.encoder import load
from isotrope.encoder.locate import is_bare
from isotrope.errors import UserError
from isotrope.evaluation.sets.similarity import agreement
from isotrope.evaluation.significance import Comparison
from isotrope.improvement.improve import improve
from isotrope.quickstart.docstrings import Docstrings, gather
from isotrope.quickstart.measures import DECISION, ModelMeasures, compare_measures, decide, measure_model
from isotrope.quickstart.page import write_page
from isotrope.store.atomic import write_json, write_text
from isotrope.store.lock import hold
from isotrope.store.mark import kind_of
from isotrope.store.records import Record, read_record
from isotrope.training.environment import environment

MODEL = "isotrope/small"
POOLING = "first_last"  # of a raw model, the best one without training: a fair model to begin with
RACE_MINUTES = 3.0
TEXT, DOCUMENTS, RESULT, IMPROVED = "docstrings.json", "documents.jsonl", "quickstart.json", "improved"


def quickstart(
    output: str | Path = "isotrope-quickstart",
    *,
    seed: int = 0,
    model: str = MODEL,
    minutes: float = RACE_MINUTES,
    text: Docstrings | None = None,
    console: Console | None = None,
) -> dict[str, Any]:
    """Improve ``model`` for the docstrings of the installed packages, and judge it on packages that it has not seen.

    No label is used. Called again after a stop or a kill, it goes on; after its end, it gives the same result again.

    Args:
        output: the folder, for the gathered documents, ``improved/`` with the model, and ``quickstart.json``.
        seed: of all random numbers.
        model: to begin with.
        minutes: for the race of the candidates.
        text: what was gathered; by default `isotrope.quickstart.docstrings.gather()`.
        console: where to report; None reports to the terminal.

    Returns:
        What ``quickstart.json`` holds: ``text`` (counts), ``choice``, ``measures`` (before and after, with intervals),
        ``verdict``, ``seconds``, …

    Raises:
        UserError: the folder is not ours, is in use, or holds another result; too little text is installed.
        Stopped: Ctrl-C.
    """
    console, folder = console or plain_console(), Path(output)
    identity = {"seed": seed, "model": model, "minutes": minutes}
    with hold(folder, "quickstart", again="give the same command again"):
        if (folder / RESULT).is_file() and kind_of(folder / IMPROVED / "model") == "model":
            return _finished(folder, identity)
        return _make(folder, identity, text, console)


def _make(folder: Path, identity: Mapping[str, Any], text: Docstrings | None, console: Console) -> dict[str, Any]:
    began, resumed, seed = time.monotonic(), (folder / TEXT).is_file(), identity["seed"]
    pooling = POOLING if is_bare(identity["model"]) else None
    with watch("loading", console):
        before = load(identity["model"], pooling)
    text = Docstrings.read(folder / TEXT) if resumed else _gathered(text, folder, console)
    rows = zip(text.titles, text.texts, strict=True)
    lines = (json.dumps({"title": title, "text": body}, ensure_ascii=False) for title, body in rows)
    write_text(folder / DOCUMENTS, "\n".join(lines) + "\n")
    console.print(f"{len(text.titles):,} docstrings of {len(text.packages)} packages to learn from")
    console.print(f"{len(text.queries):,} docstrings of {len(text.held_out)} other packages to judge by")
    found = improve(
        identity["model"], folder / DOCUMENTS, output=folder / IMPROVED, minutes=identity["minutes"], seed=seed,
        pooling=pooling, console=console,
    )  # fmt: skip
    with watch("measuring", console, "both models on the other packages"):
        old, new = measure_model(before, text), measure_model(found.model, text)
    tests = compare_measures(old, new, seed)
    result = {
        **identity,
        "choice": found.choice,
        "candidates": len(found.record["table"]),
        "text": {
            "packages": len(text.packages), "held_out_packages": text.held_out, "documents_found": text.found,
            "documents_shared_with_held_out": text.shared, "documents": len(text.titles), "queries": len(text.queries),
        },
        "measures": _measures(old, new, tests),
        "grading_agreement": agreement(),
        "verdict": decide(tests),
        "rule": DECISION,
        "seconds": time.monotonic() - began,
        "resumed": resumed,  # then the seconds are those of the last call alone
        "peak_memory_mb": _peak_memory_mb(),
        "environment": environment(),
    }  # fmt: skip
    write_page(result, folder)
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


def _measures(old: ModelMeasures, new: ModelMeasures, tests: Mapping[str, Comparison]) -> dict[str, dict[str, float]]:
    """Measure -> the figures of both models, and of the test where there is one."""
    shown = ("difference", "low", "high", "p", "resamples")
    return {
        name: {"before": before, "after": new.figures[name]}
        | ({key: asdict(tests[name])[key] for key in shown} if name in tests else {})
        for name, before in old.figures.items()
    }


def _peak_memory_mb() -> int | None:
    """The most memory that this process held so far; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # pragma: no cover  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1 << 20 if sys.platform == "darwin" else 1 << 10))
