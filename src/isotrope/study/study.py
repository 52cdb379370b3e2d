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
from isotrope.store.job import Job
from isotrope.study.analyse import study_record
from isotrope.study.document import write_pages
from isotrope.study.execute import run_plan
from isotrope.study.plan import StudyPaths, StudyPlan
from isotrope.study.record import StudyRecord
from isotrope.study.spec import Spec, read_study
from isotrope.study.tuned import with_tuned


class Options(TypedDict, total=False):
    """The study's file decides what is left out; those from ``documents`` to ``labels`` replace
    keys of its ``[run]``.
    """

    output: Required[str | Path]  # the study's folder
    documents: Sequence[str] | None  # text to learn from, as ``run.corpus``
    keep_duplicates: bool | None  # of that text
    model: str | None  # what to begin with, in place of every preset's
    vectors: str | None  # a file of word vectors, for the rows that take it
    # name -> file or folder, for the rows with these ``documents``
    row_documents: Mapping[str, str] | None
    sentences: int | None  # of a run
    dev: Sequence[str] | None  # pairs that select
    seeds: int | None  # how many, from 0
    labels: str | None  # pairs that judge, as ``run.test``: sts, stsb, stsb-dev, dev-half, none
    data: str | Path | None  # the folder that holds ``senteval/``; None takes ISOTROPE_DATA
    rows: Sequence[str]  # only these
    # a ``search.toml``, whose best settings are added to the rows and to tuned teachers
    tuned: str | Path | None
    overrides: Sequence[str]  # ``key=value`` over every cell whose preset has that component
    workers: int  # processes at a time; they change no result
    restart: bool  # forget what an earlier call left in the folder
    console: Console | None  # where to report; None reports to the terminal


def spec_with(file: str | Path, options: Options, *, search: bool = False, **run: Any) -> Spec:
    """The study, with the options and ``run`` in place of keys of its ``[run]``."""
    changes = {
        "corpus": options.get("documents") or None,
        "keep_duplicates": options.get("keep_duplicates") or None,
        "backbone": options.get("model"),
        "vectors": options.get("vectors"),
        "row_documents": options.get("row_documents"),
        "sentences": options.get("sentences"),
        "dev": options.get("dev") or None,
        "seeds": options.get("seeds"),
        "test": options.get("labels"),
    }
    spec = read_study(file, changes | run)
    if tuned := options.get("tuned"):
        return with_tuned(spec, tuned, options.get("rows", ()), search=search)
    return spec


def paths_of(options: Options) -> StudyPaths:
    """Where the study writes, and where its data are."""
    data = options.get("data") or os.environ.get("ISOTROPE_DATA")
    return StudyPaths(Path(options["output"]), str(data) if data else None)


def plan_study(file: str | Path, **options: Unpack[Options]) -> StudyPlan:
    """The cells of a study (a shipped one's name, or a .toml file). Nothing is run.

    UserError: as in `study`.
    """
    return StudyPlan(
        spec_with(file, options),
        paths_of(options),
        options.get("rows", ()),
        options.get("overrides", ()),
    )


@dataclass(frozen=True, slots=True)
class Study:
    """A study so far. ``record`` is what ``study.json`` holds; ``failed`` has a line for each
    failed cell.
    """

    folder: Path
    record: StudyRecord
    pages: Sequence[Path]
    failed: Mapping[str, str]


def study(file: str | Path, **options: Unpack[Options]) -> Study:
    """Run the unfinished cells of a study (a shipped one's name, or a .toml file), then write its
    tables.

    The output folder holds ``cells/`` (each with ``result.json``), ``study.json`` and ``table.md``
    and ``.html`` with the figures. A cell's key is everything that decides its result. So a
    finished cell is never run again, studies in one folder share equal cells, and more seeds or
    rows only add cells. After a kill, the same call goes on. Call it under ``if __name__ ==
    "__main__"``, since cells run in processes of their own.

    Raises:
        UserError: a mistake of the user's; raised before long work.
        Stopped: Ctrl-C; the pages show what is finished, and the same call goes on.
    """
    console = options.get("console") or plain_console()
    with watch("planning", console):
        plan = plan_study(file, **options)
    # It has no identity, since more rows and seeds, and other studies, add cells.
    restart = options.get("restart", False)
    job = Job(options["output"], "study", {}, plan.corpora, restart=restart)
    with job.held():
        job.begin()
        try:
            failed = run_plan(plan, options.get("workers", 1), console)
        except Stopped:
            write_study(plan, {})
            raise
        with watch("testing the differences, drawing and writing", console):
            return write_study(plan, failed)


def write_study(plan: StudyPlan, failed: Mapping[str, str]) -> Study:
    """Write the study's record, pages and figures from the cells that are finished."""
    output = plan.paths.output
    record = study_record(plan, failed)
    try:
        figures = needs("report", "isotrope.study.figures")
    except UserError as error:  # the tables are complete without them
        plain_console(stderr=True).print(f"no figures: {error}")
    else:
        files = figures.draw(plan, record, output)
        record = record.model_copy(update={"figures": files})
    record.write(output)
    return Study(output, record, write_pages(record, output), failed)
