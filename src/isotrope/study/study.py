"""A study, whole: a file in; finished cells, a table, its tests and figures out."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from isotrope.errors import UserError
from isotrope.folders import writing
from isotrope.study.document import write_pages
from isotrope.study.figures import draw
from isotrope.study.plan import Place, Plan, plan
from isotrope.study.run import run_plan
from isotrope.study.spec import read_study, with_tuned
from isotrope.study.table import gather
from isotrope.training.claim import write

RECORD = "study.json"


@dataclass(frozen=True, slots=True)
class Study:
    """A study as far as it has come: ``record`` is what ``study.json`` holds, ``failed`` a line for each lost cell."""

    folder: Path
    record: Mapping[str, Any]
    pages: Sequence[Path]
    failed: Mapping[str, str]


def study(
    file: str | Path,
    *,
    output: str | Path,
    corpus: Sequence[str] | None = None,
    data: str | Path | None = None,
    backbone: str | None = None,
    sentences: int | None = None,
    seeds: int | None = None,
    dev: Sequence[str] | None = None,
    test: str | None = None,
    rows: Sequence[str] = (),
    overrides: Sequence[str] = (),
    sweep: Mapping[str, Sequence[Any]] | None = None,
    tuned: str | Path | None = None,
    jobs: int = 1,
    console: Console | None = None,
) -> Study:
    """Run what is left to run of a study, then write its table.

    The output folder holds ``cells/`` (each with ``result.json``), ``study.json`` and ``table.md``, ``.tex``, ``.html``
    with the figures. A cell is known by all that decides its result: finished ones are never run again, several
    studies in one folder share what is equal, and more seeds or rows only add. Killed at any point, the same call goes
    on. Call it under ``if __name__ == "__main__"``, since cells run in processes of their own.

    Args:
        file: a shipped study's name, or a .toml file.
        output: the study's folder.
        corpus: as ``run.corpus``; this and the options below replace what ``[run]`` says.
        data: the folder that holds ``senteval/``; None takes ISOTROPE_DATA.
        backbone: in place of every preset's.
        sentences: a run.
        seeds: how many, from 0.
        dev: pairs that select.
        test: pairs that judge: sts, stsb, dev-half, none.
        rows: only these.
        overrides: ``key=value`` over every cell whose preset has that component.
        sweep: key -> values, over every row.
        tuned: the ``search.toml`` of a search, whose best settings go over the rows' own.
        jobs: processes at a time.
        console: where to report; None reports to the terminal.

    Raises:
        UserError: a mistake of the user's, before anything long.
        Stopped: Ctrl-C; the same call goes on.
    """
    console = console or Console()
    changes = {"corpus": corpus or None, "backbone": backbone, "sentences": sentences, "seeds": seeds,
               "dev": dev or None, "test": test}  # fmt: skip
    place = Place(Path(output), str(data or os.environ.get("ISOTROPE_DATA") or "") or None, tuple(overrides))
    spec = read_study(file, changes)
    planned = plan(with_tuned(spec, tuned) if tuned else spec, place, rows, sweep)
    if jobs < 1:
        raise UserError(f"jobs = {jobs}", "choose 1 or more")
    with writing(place.output):
        failed = run_plan(planned, jobs, console).failed
        return tell(planned, place.output, failed)


def tell(planned: Plan, output: Path, failed: Mapping[str, str]) -> Study:
    """Write the study's record, pages and figures from the cells that are finished."""
    record = gather(planned, failed)
    record["figures"] = draw(planned, record, output)
    write(output / RECORD, json.dumps(record, indent=2))
    return Study(output, record, write_pages(record, output), failed)
