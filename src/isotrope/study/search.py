"""A search for the best settings of a study's rows: random trials, judged by dev pairs and by tasks
made from documents.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import tomli_w

from isotrope.console.plain import plain_console
from isotrope.errors import UserError
from isotrope.preset.preset import read_preset
from isotrope.store.files import Record, write_text
from isotrope.store.job import Job
from isotrope.study.columns import SELF_MADE
from isotrope.study.execute import run_plan
from isotrope.study.plan import StudyPaths, StudyPlan, check_component, has_component
from isotrope.study.rows import expand_rows
from isotrope.study.spec import Range, SearchSettings, Settings, Spec, Values
from isotrope.study.study import Options, paths_of, spec_with
from isotrope.study.tuned import training
from isotrope.training.pairs import dev_names

DEV = "dev"
JUDGES = (DEV, SELF_MADE)  # the first chooses
FILE = "search.toml"
Trials = dict[str, Settings]  # by name


def search_settings(file: str | Path, **options: Unpack[Options]) -> Path:
    """Search the keys of ``[search]`` at random, for every row whose preset has the component ->
    ``search.toml``.

    Bergstra and Bengio, Random Search for Hyper-Parameter Optimization (JMLR 2012),
    https://jmlr.org/papers/v13/bergstra12a.

    A trial is one cell with seed 0. No test set is read. Its score is the dev score at the best
    step, on the half of the dev pairs that selects if the other half judges the study. Trials are
    drawn by the search's seed, so a stopped search goes on, and more trials add to the old ones.
    ``search.toml`` holds, for each row, the best ``set`` for its table in the study's file, and all
    trials; a search of other rows adds theirs. If documents are named, tasks made from them score
    each trial too. Rows of one training share their trials.

    Raises:
        UserError: the study has no search or no dev pairs, a trial fails, or a mistake as in
            `isotrope.study.study`.
        Stopped: Ctrl-C; the same call goes on.
    """
    console = options.get("console") or plain_console()
    spec = spec_with(file, options, search=True, suites={}, seeds=1)
    paths = paths_of(options)
    if spec.search is None:
        raise UserError(
            f"study {file} has no search",
            "add [search.keys] with a key and its values or bounds",
            code="no-search",
        )
    _check_dev_pairs(spec, paths)
    searched = _searched_rows(spec, spec.search, options.get("rows", ()))
    documents = spec.search.documents or spec.run.documents
    trials = _trial_study(spec, searched, documents)
    plan = StudyPlan(trials, paths, overrides=options.get("overrides", ()))
    restart = options.get("restart", False)
    job = Job(options["output"], "study", {}, plan.corpora, restart=restart)
    with job.held():
        job.begin()
        failed = run_plan(plan, options.get("workers", 1), console)
        _write_best(paths.output / FILE, plan, searched)
    if failed:
        raise UserError(
            f"{len(failed)} of {len(plan.cells)} cells are not finished",
            f"see the logs in cells/; {FILE} has the others, and the same command goes on",
            code="unfinished-cells",
        )
    return paths.output / FILE


def _check_dev_pairs(spec: Spec, paths: StudyPaths) -> None:
    """Refuse a search that nothing judges; the presets' own dev pairs need the data folder."""
    has_pairs = bool(paths.data)
    if spec.run.dev is not None:
        has_pairs = bool(dev_names(spec.run.dev))
    if not has_pairs:
        raise UserError(
            "a search needs dev pairs",
            "add --dev stsb and --data, or --dev FILE.tsv",
            code="no-dev-pairs",
        )


def _searched_rows(spec: Spec, search: SearchSettings, only: Sequence[str]) -> dict[str, Trials]:
    """The trained rows that are searched, one for each training -> their trials."""
    searched: dict[str, Trials] = {}
    trainings = set()
    presets = []
    for entry in expand_rows(spec, only).values():
        label = entry.base
        row = spec.rows[label]
        if not row.train or training(row) in trainings:
            continue
        trainings.add(training(row))
        preset = read_preset(row.preset, row.set)
        presets.append(preset)
        where = f"study {spec.name}: rows.{label}.search: "
        for key in row.search:
            check_component(key, [preset], where)
        space = {}
        for key, values in {**search.keys, **row.search}.items():
            if has_component(key, preset):
                space[key] = values
        trials = {}
        for number, settings in enumerate(draw_trials(space, search.trials, search.seed)):
            trials[f"{label}, trial {number}"] = settings
        searched[label] = trials
    if not searched:
        raise UserError(
            f"study {spec.name} trains none of these rows",
            f"choose from {', '.join(spec.rows)}",
            code="no-trained-row",
        )
    if not only:  # a key may be for a row that is left out
        for key in search.keys:
            check_component(key, presets, f"study {spec.name}: search.keys: ")
    return searched


def _trial_study(spec: Spec, searched: Mapping[str, Trials], documents: Sequence[str]) -> Spec:
    """The study whose rows are the trials. Its test pairs are not read."""
    rows = {}
    for label, trials in searched.items():
        row = spec.rows[label]
        for name, settings in trials.items():
            changes = {"sweep": {}, "then": "", "set": (*row.set, *settings)}
            rows[name] = row.model_copy(update=changes)
    test = "dev-half" if spec.run.test == "dev-half" else "none"
    changes = {"baseline": "", "test": test, "documents": documents}
    run = spec.run.model_copy(update=changes)
    return spec.model_copy(update={"rows": rows, "run": run, "claims": {}, "figures": {}})


def _write_best(file: Path, plan: StudyPlan, searched: Mapping[str, Trials]) -> None:
    """Write each row's best trial by the dev pairs, beside the rows of earlier searches."""
    rows = {}
    if file.is_file():
        rows = tomllib.loads(file.read_text(encoding="utf-8"))["rows"]
    for label, trials in searched.items():
        finished = _finished_trials(plan, trials)
        if finished:
            best = max(finished, key=lambda trial: trial.get(DEV, -np.inf))
            rows[label] = {**best, "trials": finished}
    write_text(file, tomli_w.dumps({"rows": rows}))


def _finished_trials(plan: StudyPlan, trials: Trials) -> list[Record]:
    """A row's trials that have ended, each as ``search.toml`` has it: its settings and its scores
    by judge.
    """
    finished = []
    for name, settings in trials.items():
        result = plan.cell(name).result()
        if not result:
            continue
        trial: Record = {"set": [*settings]}
        for judge in JUDGES:
            if judge in result.scores:
                trial[judge] = result.scores[judge]
        finished.append(trial)
    return finished


def draw_trials(space: Mapping[str, Range | Values], count: int, seed: int) -> tuple[Settings, ...]:
    """The first ``count`` different trials of a seed, each as ``key=value``; all of a small
    grid.
    """
    generator = np.random.default_rng(seed)
    trials: dict[Settings, None] = {}
    for _ in range(100 * count):
        trial = []
        for key, values in space.items():
            value = _draw(values, generator)
            trial.append(f"{key}={json.dumps(value)}")
        trials[tuple(trial)] = None
        if len(trials) == count:
            break
    return tuple(trials)


def _draw(values: Range | Values, generator: np.random.Generator) -> Any:
    if not isinstance(values, Range):
        return values[generator.integers(len(values))]
    if not values.log:
        return generator.uniform(values.low, values.high)
    low = np.log(values.low)
    high = np.log(values.high)
    return float(np.exp(generator.uniform(low, high)))
