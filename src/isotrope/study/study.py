"""A whole study: a file in; finished cells, tables, tests and figures out. Or a search for the best
settings.
"""

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Required, TypedDict, Unpack

import numpy as np
import tomli_w
from rich.console import Console

from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.errors import Stopped, UserError, needs
from isotrope.preset.preset import Preset, read_preset
from isotrope.store.files import write_json, write_text
from isotrope.store.job import Job
from isotrope.study.analyse import study_record
from isotrope.study.columns import SELF_MADE
from isotrope.study.document import write_pages
from isotrope.study.execute import run_plan
from isotrope.study.plan import Place, StudyPlan, check_component, has_component
from isotrope.study.rows import expand_rows, training, with_tuned
from isotrope.study.spec import Range, RowSettings, Spec, Values, read_study
from isotrope.training.pairs import dev_names

SEARCH, SEARCH_SELF_MADE = "search.toml", "search-self-made.toml"


class Options(TypedDict, total=False):
    """The study's file decides what is left out; the first nine after ``output`` replace keys of
    its ``[run]``.
    """

    output: Required[str | Path]  # the study's folder
    documents: Sequence[str] | None  # text to learn from, as ``run.corpus``
    model: str | None  # what to begin with, in place of every preset's
    vectors: str | None  # a file of word vectors, for the rows that take it
    # name -> file or folder, for the rows with these ``documents``
    row_documents: Mapping[str, str] | None
    sentences: int | None  # of a run
    dev: Sequence[str] | None  # pairs that select
    seeds: int | None  # how many, from 0
    labels: str | None  # pairs that judge, as ``run.test``: sts, stsb, stsb-dev, dev-half, none
    # processor threads of each cell, a part of its key: another number makes new cells
    threads: int | None
    data: str | Path | None  # the folder that holds ``senteval/``; None takes ISOTROPE_DATA
    rows: Sequence[str]  # only these
    sweep: Mapping[str, Sequence[Any]] | None  # key -> values, over every row
    # a ``search.toml``, whose best settings are added to the rows and to tuned teachers
    tuned: str | Path | None
    overrides: Sequence[str]  # ``key=value`` over every cell whose preset has that component
    workers: int  # processes at a time; they change no result
    restart: bool  # forget what an earlier call left in the folder
    console: Console | None  # where to report; None reports to the terminal


def with_options(
    file: str | Path, options: Options, *, search: bool = False, **run: Any
) -> tuple[Spec, Place]:
    """The study, with the options and ``run`` in place of keys of its ``[run]``; and where it reads
    and writes.
    """
    changes = {
        "corpus": options.get("documents") or None,
        "backbone": options.get("model"),
        "dev": options.get("dev") or None,
        "test": options.get("labels"),
        **{
            key: options.get(key)
            for key in ("vectors", "row_documents", "sentences", "seeds", "threads")
        },
    }
    data = str(options.get("data") or os.environ.get("ISOTROPE_DATA") or "") or None
    spec, tuned = read_study(file, changes | run), options.get("tuned")
    place = Place(Path(options["output"]), data, tuple(options.get("overrides", ())))
    return with_tuned(spec, tuned, options.get("rows", ()), search=search) if tuned else spec, place


@dataclass(frozen=True, slots=True)
class Study:
    """A study so far. ``record`` is what ``study.json`` holds; ``failed`` has a line for each
    failed cell.
    """

    folder: Path
    record: Mapping[str, Any]
    pages: Sequence[Path]
    failed: Mapping[str, str]


def study(file: str | Path, **options: Unpack[Options]) -> Study:
    """Run the unfinished cells of a study (a shipped one's name, or a .toml file), then write its
    tables.

    The output folder holds ``cells/`` (each with ``result.json``), ``study.json`` and ``table.md``,
    ``.tex``, ``.html`` with the figures. A cell's key is everything that decides its result. So a
    finished cell is never run again, studies in one folder share equal cells, and more seeds or
    rows only add cells. After a kill, the same call goes on. Call it under ``if __name__ ==
    "__main__"``, since cells run in processes of their own.

    Raises:
        UserError: a mistake of the user's; raised before long work.
        Stopped: Ctrl-C; the pages show what is finished, and the same call goes on.
    """
    console = options.get("console") or plain_console()
    with watch("planning", console):
        planned = StudyPlan(
            *with_options(file, options), options.get("rows", ()), options.get("sweep")
        )
    job = Job(
        options["output"], "study", {}, planned.corpora, restart=options.get("restart", False)
    )
    with job.held():  # it has no identity, since more rows and seeds, and other studies, add cells
        job.begin()
        try:
            failed = run_plan(planned, options.get("workers", 1), console)
        except Stopped:
            write_study(planned, {})
            raise
        with watch("testing the differences, drawing and writing", console):
            return write_study(planned, failed)


def write_study(planned: StudyPlan, failed: Mapping[str, str]) -> Study:
    """Write the study's record, pages and figures from the cells that are finished."""
    output, record = planned.place.output, study_record(planned, failed)
    try:
        figures = needs("report", "isotrope.study.figures")
    except UserError as error:  # the tables stand without them
        plain_console(stderr=True).print(f"no figures: {error}")
        record["figures"] = {}
    else:
        record["figures"] = figures.draw(planned, record, output)
    write_json(output / "study.json", record)
    return Study(output, record, write_pages(record, output), failed)


def search_settings(file: str | Path, **options: Unpack[Options]) -> Path:
    """Search the keys of ``[search]`` at random, for every row whose preset has the component ->
    ``search.toml``.

    Bergstra and Bengio, Random Search for Hyper-Parameter Optimization (JMLR 2012),
    https://jmlr.org/papers/v13/bergstra12a.

    A trial is one cell with seed 0. No test set is read. Its score is the dev score at the best
    step, on the half of the dev pairs that selects if the other half judges the study. Trials are
    drawn by the search's seed, so a stopped search goes on, and more trials add to the old ones.
    ``search.toml`` holds, for each row, the best ``set`` for its table in the study's file, and all
    trials; a search of other rows adds theirs. If documents are named, ``search-self-made.toml``
    holds what the tasks made from them choose; dev pairs still select each trial's checkpoint. Rows
    of one training share their trials.

    Raises:
        UserError: the study has no search or no dev pairs, a trial fails, or a mistake as in
            `isotrope.study.study`.
        Stopped: Ctrl-C; the same call goes on.
    """
    spec, place = with_options(file, options, search=True, suites={}, seeds=1)
    if (search := spec.search) is None:
        raise UserError(
            f"study {file} has no search", "add [search.keys] with a key and its values or bounds"
        )
    if not (place.data if spec.run.dev is None else dev_names(spec.run.dev)):
        raise UserError("a search needs dev pairs", "add --dev stsb and --data, or --dev FILE.tsv")
    rows: dict[str, RowSettings] = {}  # one for each trial
    recipes: list[Preset] = []
    trials: dict[str, dict[str, list[str]]] = {}  # label -> name of the trial's row -> key=value
    chosen = dict.fromkeys(
        entry.base for entry in expand_rows(spec, options.get("rows", ())).values()
    )
    trained = {
        training(spec.rows[label]): label for label in reversed(chosen) if spec.rows[label].train
    }
    for label in (one for one in chosen if one in trained.values()):
        row = spec.rows[label]
        recipe = read_preset(row.preset, row.set)
        space = {
            k: values
            for k, values in {**search.keys, **row.search}.items()
            if has_component(k, recipe)
        }
        recipes.append(recipe)
        for key in row.search:
            check_component(key, [recipe], f"study {spec.name}: rows.{label}.search: ")
        drawn = trials_of(space, search.trials, search.seed)
        trials[label] = {f"{label}, trial {n}": settings for n, settings in enumerate(drawn)}
        for name, settings in trials[label].items():
            rows[name] = row.model_copy(
                update={"sweep": {}, "then": "", "set": (*row.set, *settings)}
            )
    if not rows:
        raise UserError(
            f"study {spec.name} trains none of these rows", f"choose from {', '.join(spec.rows)}"
        )
    for key in () if options.get("rows") else search.keys:
        check_component(key, recipes, f"study {spec.name}: search.keys: ")
    test = "dev-half" if spec.run.test == "dev-half" else "none"
    documents = search.documents or spec.run.documents
    run = spec.run.model_copy(update={"baseline": "", "test": test, "documents": documents})
    planned = StudyPlan(
        spec.model_copy(update={"rows": rows, "run": run, "claims": {}, "figures": {}}), place
    )
    job = Job(
        options["output"], "study", {}, planned.corpora, restart=options.get("restart", False)
    )
    with job.held():
        job.begin()
        failed = run_plan(
            planned, options.get("workers", 1), options.get("console") or plain_console()
        )
        # label -> its trials that have ended, with what judged them
        tried: dict[str, list[dict[str, Any]]] = {}
        for label, name in ((label, name) for label, of in trials.items() for name in of):
            if record := planned.cells[planned.rows[name][0]].record():
                scores = record["scores"]
                judged = {judge: scores[judge] for judge in ("dev", SELF_MADE) if judge in scores}
                tried.setdefault(label, []).append({"set": trials[label][name], **judged})
        for judge, name in (
            {"dev": SEARCH} | ({SELF_MADE: SEARCH_SELF_MADE} if documents else {})
        ).items():
            best = {
                label: max(of, key=lambda trial: trial.get(judge, -np.inf))
                for label, of in tried.items()
            }
            file = place.output / name  # which may have rows of earlier searches
            found = (
                tomllib.loads(file.read_text(encoding="utf-8"))["rows"] if file.is_file() else {}
            )
            found |= {label: {**best[label], "trials": of} for label, of in tried.items()}
            write_text(file, tomli_w.dumps({"rows": found}))
    if failed:
        problem = f"{len(failed)} of {len(planned.cells)} cells are not finished"
        raise UserError(
            problem,
            f"see the logs in cells/; {SEARCH} has the others, and the same command goes on",
        )
    return place.output / SEARCH


def trials_of(space: Mapping[str, Range | Values], count: int, seed: int) -> list[list[str]]:
    """The first ``count`` different trials of a seed, each as ``key=value``; all of a small grid."""
    generator = np.random.default_rng(seed)

    def draw(values: Range | Values) -> Any:
        if not isinstance(values, Range):
            return values[generator.integers(len(values))]
        if values.log:
            return float(np.exp(generator.uniform(np.log(values.low), np.log(values.high))))
        return float(generator.uniform(values.low, values.high))

    drawn: dict[tuple[str, ...], None] = {}
    for _ in range(100 * count):
        drawn[tuple(f"{key}={json.dumps(draw(values))}" for key, values in space.items())] = None
        if len(drawn) == count:
            break
    return [[*trial] for trial in drawn]
