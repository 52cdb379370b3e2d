"""A whole study: a file in; finished cells, tables, tests and figures out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.errors import Stopped
from isotrope.store.atomic import write_json
from isotrope.store.disk import writing
from isotrope.store.mark import claim
from isotrope.study.analyse import study_record
from isotrope.study.document import write_pages
from isotrope.study.execute import run_plan
from isotrope.study.figures import draw
from isotrope.study.options import Options, with_options
from isotrope.study.plan import StudyPlan, plan_study
from isotrope.study.spec import with_tuned

RECORD = "study.json"


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
    test: str | None = None,
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
        test: pairs that judge: sts, stsb, stsb-dev, dev-half, none.
        sweep: key -> values, over every row.
        tuned: the ``search.toml`` of a search. Its best settings are added to the rows.
        options: see `isotrope.study.options.Options`.

    Raises:
        UserError: a mistake of the user's; raised before long work.
        Stopped: Ctrl-C; the pages show what is finished, and the same call goes on.
    """
    spec, place = with_options(file, options, seeds=seeds, test=test)
    console = options.get("console") or plain_console()
    with watch("planning", console):
        planned = plan_study(with_tuned(spec, tuned) if tuned else spec, place, options.get("rows", ()), sweep)
    with writing(place.output, again="run the same command again"):
        claim(place.output, "study")
        try:
            failed = run_plan(planned, options.get("jobs", 1), console)
        except Stopped:
            if any(cell.finished for cell in planned.cells.values()):
                done = write_study(planned, place.output, {})
                raise Stopped(f"stopped; finished cells are kept, {done.pages[0]} shows them") from None
            raise
        with watch("testing the differences, drawing and writing", console):
            return write_study(planned, place.output, failed)


def write_study(planned: StudyPlan, output: Path, failed: Mapping[str, str]) -> Study:
    """Write the study's record, pages and figures from the cells that are finished."""
    record = study_record(planned, failed)
    record["figures"] = draw(planned, record, output)
    write_json(output / RECORD, record)
    return Study(output, record, write_pages(record, output), failed)
