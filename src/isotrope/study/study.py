"""A whole study: a file in; finished cells, tables, tests and figures out."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Required, TypedDict, Unpack

from rich.console import Console

from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.errors import Stopped, UserError, needs
from isotrope.store.atomic import write_json
from isotrope.store.job import Job
from isotrope.study.analyse import study_record
from isotrope.study.document import write_pages
from isotrope.study.execute import run_plan
from isotrope.study.plan import Place, StudyPlan, corpus_of
from isotrope.study.spec import Spec, read_study, with_tuned

RECORD = "study.json"


class Options(TypedDict, total=False):
    """The study's file decides what is left out here; the first six after ``output`` replace keys of its ``[run]``."""

    output: Required[str | Path]  # the study's folder
    documents: Sequence[str] | None  # text to learn from, as ``run.corpus``
    model: str | None  # what to begin with, in place of every preset's
    vectors: str | None  # a file of word vectors, for the rows that take it
    sentences: int | None  # of a run
    dev: Sequence[str] | None  # pairs that select
    threads: int | None  # processor threads of each cell, a part of its key: another number makes new cells
    data: str | Path | None  # the folder that holds ``senteval/``; None takes ISOTROPE_DATA
    rows: Sequence[str]  # only these
    overrides: Sequence[str]  # ``key=value`` over every cell whose preset has that component
    workers: int  # processes at a time; they change no result
    restart: bool  # forget what an earlier call left in the folder
    console: Console | None  # where to report; None reports to the terminal


def with_options(file: str | Path, options: Options, **run: Any) -> tuple[Spec, Place]:
    """The study, with the options and ``run`` in place of keys of its ``[run]``; and where it reads and writes."""
    changes = {
        "corpus": options.get("documents") or None,
        "backbone": options.get("model"),
        "dev": options.get("dev") or None,
        **{key: options.get(key) for key in ("vectors", "sentences", "threads")},
    }
    data = str(options.get("data") or os.environ.get("ISOTROPE_DATA") or "") or None
    return read_study(file, changes | run), Place(Path(options["output"]), data, tuple(options.get("overrides", ())))


@dataclass(frozen=True, slots=True)
class Study:
    """A study so far. ``record`` is what ``study.json`` holds; ``failed`` has a line for each failed cell."""

    folder: Path
    record: Mapping[str, Any]
    pages: Sequence[Path]
    failed: Mapping[str, str]


def study(
    file: str | Path,
    *,
    seeds: int | None = None,
    labels: str | None = None,
    sweep: Mapping[str, Sequence[Any]] | None = None,
    tuned: str | Path | None = None,
    **options: Unpack[Options],
) -> Study:
    """Run the unfinished cells of a study, then write its tables.

    The output folder holds ``cells/`` (each with ``result.json``), ``study.json`` and ``table.md``, ``.tex``, ``.html``
    with the figures. A cell's key is everything that decides its result. So a finished cell is never run again,
    studies in one folder share equal cells, and more seeds or rows only add cells. After a kill, the same call goes on.
    Call it under ``if __name__ == "__main__"``, since cells run in processes of their own.

    Args:
        file: a shipped study's name, or a .toml file.
        seeds: how many, from 0.
        labels: pairs that judge: sts, stsb, stsb-dev, dev-half, none.
        sweep: key -> values, over every row.
        tuned: the ``search.toml`` of a search. Its best settings are added to the rows.
        options: see `Options`.

    Raises:
        UserError: a mistake of the user's; raised before long work.
        Stopped: Ctrl-C; the pages show what is finished, and the same call goes on.
    """
    spec, place = with_options(file, options, seeds=seeds, test=labels)
    console = options.get("console") or plain_console()
    with watch("planning", console):
        planned = StudyPlan(with_tuned(spec, tuned) if tuned else spec, place, options.get("rows", ()), sweep)
    job = study_job(options, spec, place)
    with job.held():
        job.begin()
        try:
            failed = run_plan(planned, options.get("workers", 1), console)
        except Stopped:
            if any(cell.record() for cell in planned.cells.values()):
                done = write_study(planned, place.output, {})
                shown = f"finished cells are kept, {done.pages[0]} shows them"
                raise Stopped(f"stopped; {shown}, and the same command goes on") from None
            raise
        with watch("testing the differences, drawing and writing", console):
            return write_study(planned, place.output, failed)


def study_job(options: Options, spec: Spec, place: Place) -> Job:
    """The folder of a study. It has no identity of its own, since more rows and seeds, and other studies, add cells."""
    return Job(options["output"], "study", {}, [corpus_of(spec, place)], restart=options.get("restart", False))


def write_study(planned: StudyPlan, output: Path, failed: Mapping[str, str]) -> Study:
    """Write the study's record, pages and figures from the cells that are finished."""
    record = study_record(planned, failed)
    try:
        figures = needs("report", "isotrope.study.figures")
    except UserError as error:  # the tables stand without them
        plain_console(stderr=True).print(f"no figures: {error}")
        record["figures"] = {}
    else:
        record["figures"] = figures.draw(planned, record, output)
    write_json(output / RECORD, record)
    return Study(output, record, write_pages(record, output), failed)
