"""A random search over preset keys: every row gets the same number of trials, judged only by dev pairs.

Bergstra and Bengio, Random Search for Hyper-Parameter Optimization (JMLR 2012), https://jmlr.org/papers/v13/bergstra12a.
"""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import tomli_w

from isotrope.console.plain import plain_console
from isotrope.errors import UserError
from isotrope.preset.preset import read_preset
from isotrope.store.atomic import write_text
from isotrope.store.disk import writing
from isotrope.study.execute import run_plan
from isotrope.study.plan import Place, StudyPlan, has_component
from isotrope.study.spec import Range, RowSettings, Spec, Values, read_study
from isotrope.study.study import Options, study_job, with_options
from isotrope.training.pairs import dev_names, dev_pairs, judges

BEST, SELECT = "search.toml", "select"


def search_settings(file: str | Path, **options: Unpack[Options]) -> Path:
    """Search the keys of ``[search]`` for every row whose preset has the component -> ``search.toml``.

    A trial is one cell with seed 0. No test set judges it. Its score is the dev score at the best step. If half of the
    dev pairs judges the study, only the other half is used here. Options are as in a study. Trials are drawn by the
    search's seed, so a stopped search goes on, and more trials add to the old ones. ``search.toml`` holds, for each
    row, the best ``set`` for its table in the study's file.

    Raises:
        UserError: the study has no search or no dev pairs, no trial of a row ends, or a mistake as in
            `isotrope.study.study`.
        Stopped: Ctrl-C; the same call goes on.
    """
    spec, place = with_options(file, options, test="none", suites=(), seeds=1)
    if (search := spec.search) is None:
        raise UserError(f"study {file} has no search", "add [search.keys] with a key and its values or bounds")
    if not (place.data if spec.run.dev is None else dev_names(spec.run.dev)):
        raise UserError("a search needs dev pairs", "add --dev stsb and --data, or --dev FILE.tsv")
    half = bool(spec.run.dev) and read_study(file).run.test == "dev-half"
    only = options.get("rows", ())
    chosen = {label: row for label, row in spec.rows.items() if row.train and (not only or label in only)}
    if unknown := set(only) - set(chosen):
        raise UserError(f"study {spec.name} trains no row {unknown.pop()!r}", f"choose from {', '.join(spec.rows)}")
    rows: dict[str, RowSettings] = {}  # one for each trial
    trials: dict[str, dict[str, list[str]]] = {}  # label -> name of the trial's row -> key=value
    for label, row in chosen.items():
        recipe = read_preset(row.preset, row.set)
        space = {key: values for key, values in search.keys.items() if has_component(key, recipe)}
        drawn = trials_of(space, search.trials, search.seed)
        trials[label] = {f"{label}, trial {n}": settings for n, settings in enumerate(drawn)}
        for name, settings in trials[label].items():
            rows[name] = row.model_copy(update={"sweep": {}, "then": "", "set": (*row.set, *settings)})
    job = study_job(options, spec, place)
    with job.held():
        job.begin()
        run = spec.run.model_copy(update={"baseline": ""} | ({"dev": _selecting(spec, place)} if half else {}))
        trial_rows = {"rows": rows, "run": run, "claims": {}, "figures": {}}
        planned = StudyPlan(spec.model_copy(update=trial_rows), place)
        run_plan(planned, options.get("workers", 1), options.get("console") or plain_console())
        best = {label: _best(planned, label, of) for label, of in trials.items()}
        write_text(place.output / BEST, tomli_w.dumps({"rows": best}))
    return place.output / BEST


def trials_of(space: Mapping[str, Range | Values], count: int, seed: int) -> list[list[str]]:
    """The first ``count`` trials of a seed, each as ``key=value``. If no key has bounds, none is drawn twice."""
    generator = np.random.default_rng(seed)

    def draw(values: Range | Values) -> Any:
        if not isinstance(values, Range):
            return values[generator.integers(len(values))]
        if values.log:
            return float(np.exp(generator.uniform(np.log(values.low), np.log(values.high))))
        return float(generator.uniform(values.low, values.high))

    if any(isinstance(values, Range) for values in space.values()):
        drawn = [{key: draw(values) for key, values in space.items()} for _ in range(count)]
    else:
        grid = list(itertools.product(*(values for values in space.values() if not isinstance(values, Range))))
        drawn = [dict(zip(space, grid[i], strict=True)) for i in generator.permutation(len(grid))[:count]]
    return [[f"{key}={json.dumps(value)}" for key, value in trial.items()] for trial in drawn]


def _best(planned: StudyPlan, label: str, trials: Mapping[str, list[str]]) -> dict[str, Any]:
    records = {name: planned.cells[planned.rows[name][0]].record() for name in trials}
    found = {name: record["selection"]["best_score"] for name, record in records.items() if record}
    scores = {name: score for name, score in found.items() if score is not None}
    if not scores:
        raise UserError(f"no trial of {label} has ended", "see the logs in cells/; the same command goes on")
    best = max(scores, key=scores.__getitem__)
    return {"set": trials[best], "dev": scores[best], "trials": len(trials)}


def _selecting(spec: Spec, place: Place) -> tuple[str, ...]:
    """Files of that half of the study's dev pairs that will not judge it."""
    _, kept = judges(None, dev_pairs(dev_names(spec.run.dev or ()), place.data), place.data)
    files = []
    for name, pairs in kept.items():
        file = place.output.resolve() / SELECT / f"{name}.tsv"
        rows = zip(pairs.first, pairs.second, pairs.gold.tolist(), strict=True)
        with writing(file.parent):
            write_text(file, "".join("\t".join(" ".join(str(cell).split()) for cell in row) + "\n" for row in rows))
        files.append(str(file))
    return tuple(files)
