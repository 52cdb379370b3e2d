"""A search over preset keys: every row gets the same number of trials, judged only by dev pairs (with optuna).

Akiba et al., Optuna: A Next-generation Hyperparameter Optimization Framework (KDD 2019),
https://arxiv.org/abs/1907.10902.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Unpack

import tomli_w

from isotrope.console.plain import plain_console
from isotrope.errors import UserError
from isotrope.preset.preset import read_preset
from isotrope.store.atomic import write_text
from isotrope.store.disk import writing
from isotrope.store.lock import alone
from isotrope.store.mark import claim
from isotrope.study.execute import run_plan
from isotrope.study.options import Options, with_options
from isotrope.study.plan import Place, StudyPlan, has_component, plan_study
from isotrope.study.spec import Range, RowSettings, Spec, read_study
from isotrope.training.pairs import dev_names, dev_pairs, judges

TRIALS, BEST, SELECT = "search.db", "search.toml", "select"
FAILED = float("-inf")  # a failed trial counts, so that every row has the same number


def search_settings(file: str | Path, **options: Unpack[Options]) -> Path:
    """Search the keys of ``[search]`` for every row whose preset has the component -> ``search.toml``.

    A trial is one cell with seed 0. No test set judges it. Its score is the dev score at the best step. If half of the
    dev pairs judges the study, only the other half is used here. Options are as in a study. Trials are kept in
    ``search.db``: a stopped search goes on, and more trials add to the old ones. ``search.toml`` holds, for each row,
    the best ``set`` for its table in the study's file.

    Raises:
        UserError: the study has no search, optuna is missing, no dev pairs, or a mistake as in `isotrope.study.study`.
        Stopped: Ctrl-C; the same call goes on.
    """
    optuna, console = _optuna(), options.get("console") or plain_console()
    spec, place = with_options(file, options, test="none", suites=(), seeds=1)
    if spec.search is None:
        raise UserError(f"study {file} has no search", "add [search.keys] with a key and its values or bounds")
    if not (place.data if spec.run.dev is None else dev_names(spec.run.dev)):
        raise UserError("a search needs dev pairs", "add --dev stsb and --data, or --dev FILE.tsv")
    half = bool(spec.run.dev) and read_study(file).run.test == "dev-half"
    chosen = {label: row.model_copy(update={"sweep": {}, "then": ""}) for label, row in spec.rows.items() if row.train}
    rows = options.get("rows", ())
    if unknown := [name for name in rows if name not in chosen]:
        raise UserError(f"study {spec.name} trains no row {unknown[0]!r}", f"choose from {', '.join(chosen)}")
    chosen = {label: row for label, row in chosen.items() if not rows or label in rows}
    spaces = {label: _space(spec, row, optuna) for label, row in chosen.items()}
    with writing(place.output, again="run the same command again"):
        claim(place.output, "study")
        with alone(place.output):
            spec = _blind(spec, place) if half else spec
            studies = _studies(optuna, spec, chosen, place)
            while asked := {
                label: _ask(optuna, one, spec, spaces[label]) for label, one in studies.items() if _left(one, spec)
            }:
                tried = {label: _with(chosen[label], params) for label, (_, params) in asked.items()}
                planned = _planned(spec, tried, place)
                run_plan(planned, options.get("jobs", 1), console)
                for label, (number, params) in asked.items():
                    record = planned.cells[planned.rows[label][0]].record()
                    score = record["selection"]["best_score"] if record else None
                    studies[label].tell(number, FAILED if score is None else score)
                    line = f"{label}, trial {number}: {score} with {params}"
                    console.print(line, highlight=False, markup=False, soft_wrap=True)
            best = {label: _best(one) for label, one in studies.items()}
            write_text(place.output / BEST, tomli_w.dumps({"rows": best}))
    return place.output / BEST


def _studies(optuna: ModuleType, spec: Spec, rows: Mapping[str, RowSettings], place: Place) -> dict[str, Any]:
    """Each row's trials so far, in optuna's form. With other text, pairs or backbones, another search begins."""
    from sqlalchemy.exc import SQLAlchemyError

    file = place.output / TRIALS
    keys = {label: seeds[0] for label, seeds in _planned(spec, rows, place).rows.items()}
    try:
        return {
            label: optuna.create_study(
                storage=f"sqlite:///{file.resolve()}", study_name=f"{label} {key}", direction="maximize",
                load_if_exists=True,
            )
            for label, key in keys.items()
        }  # fmt: skip
    except (SQLAlchemyError, optuna.exceptions.OptunaError, RuntimeError) as error:
        raise UserError(
            f"{file} is damaged", "delete it: the same trials are drawn again, and finished cells are kept"
        ) from error


def _planned(spec: Spec, rows: Mapping[str, RowSettings], place: Place) -> StudyPlan:
    run = spec.run.model_copy(update={"baseline": ""})
    return plan_study(spec.model_copy(update={"rows": dict(rows), "run": run, "claims": {}, "figures": {}}), place)


def _blind(spec: Spec, place: Place) -> Spec:
    """The study with only that half of its dev pairs that will not judge it."""
    _, kept = judges(None, dev_pairs(dev_names(spec.run.dev or ()), place.data), place.data)
    files = []
    for name, pairs in kept.items():
        file = place.output.resolve() / SELECT / f"{name}.tsv"
        rows = zip(pairs.first, pairs.second, pairs.gold.tolist(), strict=True)
        with writing(file.parent):
            write_text(file, "".join("\t".join(" ".join(str(cell).split()) for cell in row) + "\n" for row in rows))
        files.append(str(file))
    return spec.model_copy(update={"run": spec.run.model_copy(update={"dev": tuple(files)})})


def _optuna() -> ModuleType:
    try:
        import optuna
    except ImportError as error:
        raise UserError("a search needs optuna", "pip install 'isotrope[search]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna  # type: ignore[no-any-return]


def _space(spec: Spec, row: RowSettings, optuna: ModuleType) -> dict[str, Any]:
    """Key -> distribution, for the keys whose component the row has."""
    recipe = read_preset(row.preset, row.set)
    space: dict[str, Any] = {}
    for key, values in spec.search.keys.items() if spec.search else ():
        if has_component(key, recipe):
            d = optuna.distributions
            space[key] = (
                d.FloatDistribution(values.low, values.high, log=values.log)
                if isinstance(values, Range)
                else d.CategoricalDistribution([json.dumps(value) for value in values])
            )
    return space


def _left(study: Any, spec: Spec) -> bool:
    done = [trial for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()]
    return spec.search is not None and len(done) < spec.search.trials


def _ask(optuna: ModuleType, study: Any, spec: Spec, space: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """The trial that a killed search left unfinished, or the next one, which depends only on the trials before it."""
    trials = study.get_trials(deepcopy=False)
    for trial in trials:
        if not trial.state.is_finished():
            return trial.number, dict(trial.params)
    study.sampler = optuna.samplers.TPESampler(seed=(spec.search.seed if spec.search else 0) + len(trials))
    trial = study.ask(fixed_distributions=dict(space))
    return trial.number, dict(trial.params)


def _with(row: RowSettings, params: Mapping[str, Any]) -> RowSettings:
    return row.model_copy(update={"set": (*row.set, *_overrides(params))})


def _overrides(params: Mapping[str, Any]) -> list[str]:
    return [f"{key}={value}" for key, value in params.items()]


def _best(study: Any) -> dict[str, Any]:
    best = study.best_trial
    return {"set": _overrides(best.params), "dev": best.value, "trials": len(study.get_trials(deepcopy=False))}
