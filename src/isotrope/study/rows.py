"""A study's rows after its sweeps: one entry for each combination of values."""

import itertools
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from isotrope.errors import UserError, check_known
from isotrope.post.fitted import TARGET
from isotrope.post.names import post_step
from isotrope.post.sif import Sif
from isotrope.study.spec import RowSettings, Spec, missing_file

SENTENCES = "sentences"  # the one key of a sweep that is not a preset's


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """A row to run. If a sweep made it, ``base`` is the row in the file and ``at`` holds the swept
    values.
    """

    label: str
    row: RowSettings  # with the settings and the sentences of the sweep
    base: str
    at: Mapping[str, Any] = field(default_factory=dict)


def expand_rows(
    spec: Spec, only: Sequence[str] = (), sweep: Mapping[str, Sequence[Any]] | None = None
) -> dict[str, PlannedRow]:
    """The rows to run, sweeps expanded: label -> entry.

    ``only`` names the rows to keep, before or after expansion (all if empty). ``sweep`` goes over
    every row.
    """
    everything: dict[str, PlannedRow] = {}
    for base, row in spec.rows.items():
        # an untrained row has no other keys than its step's sentences
        swept = {**row.sweep, **(sweep or {})}.items()
        axes = {
            key: values
            for key, values in swept
            if (row.train or (row.then and key == SENTENCES))
            and not (row.documents and key == SENTENCES)
        }
        for values in itertools.product(*axes.values()):
            at = dict(zip(axes, values, strict=True))
            label = ", ".join(
                [
                    base,
                    *(f"{key.rsplit('.', 1)[-1]} = {_short(value)}" for key, value in at.items()),
                ]
            )
            if label in everything:
                problem = f"study {spec.name}: two rows are called {label!r}"
                raise UserError(problem, "rename one, or name each value once")
            settings = [
                f"{key}={json.dumps(value)}" for key, value in at.items() if key != SENTENCES
            ]
            own = {
                "set": (*row.set, *settings),
                SENTENCES: _count(spec, label, at.get(SENTENCES, row.sentences), row),
            }
            everything[label] = PlannedRow(label, row.model_copy(update=own), base, at)
    _check_names(spec, everything, only)
    return {
        label: entry
        for label, entry in everything.items()
        if not only or {label, entry.base} & set(only)
    }


def training(row: RowSettings) -> str:
    """Equal for rows with the same training, whatever their ``then``."""
    reads = {"sentences", "documents", "positive"}
    return row.model_dump_json(
        include={"preset", "set", "teachers", "sweep", "scale", "search"} | reads
    )


def with_tuned(
    spec: Spec, file: str | Path, only: Sequence[str] = (), *, search: bool = False
) -> Spec:
    """The study, its rows and teachers with the best settings that a search found
    (``search.toml``).

    In a ``search``, the teachers alone have them: the rows are what it searches.

    UserError: the file is no search.toml, or lacks a trained row (of those in ``only``).
    """
    try:
        found = tomllib.loads(Path(file).read_text(encoding="utf-8"))["rows"]
        own = {k: tuple(map(str, row["set"])) for k, row in found.items() if k in spec.rows}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        own = {}
    best = {training(spec.rows[k]): settings for k, settings in reversed(own.items())}
    needed = [entry.base for entry in expand_rows(spec, only).values() if entry.row.train]
    if search:
        needed = [one.tuned for one in spec.teachers.values() if one.tuned]
    lost = next((label for label in needed if training(spec.rows[label]) not in best), "")
    if lost or (search and not needed):
        remedy = "name the search.toml that --search wrote for all these rows"
        problem = (
            f"{file} has no settings for the row {lost!r}"
            if lost
            else f"{file} has no effect: no teacher is tuned"
        )
        raise UserError(problem, remedy if lost else "leave --tuned out")
    more = {k: own.get(k, best.get(training(row), ())) for k, row in spec.rows.items() if row.train}
    taught = {
        name: one.model_copy(update={"set": (*one.set, *best[found]), "tuned": ""})
        if found in best
        else one
        for name, one in spec.teachers.items()
        for found in [training(spec.rows[one.tuned]) if one.tuned else ""]
    }
    rows = {
        k: row.model_copy(update={"set": (*row.set, *more.get(k, ()))})
        for k, row in spec.rows.items()
    }
    return spec.model_copy(update={"teachers": taught} | ({} if search else {"rows": rows}))


def _check_names(spec: Spec, entries: Mapping[str, PlannedRow], only: Sequence[str]) -> None:
    rows = {*entries, *(entry.base for entry in entries.values())}
    swept = {
        k
        for entry in entries.values()
        for k, value in entry.at.items()
        if isinstance(value, int | float)
    }
    named = [("--rows:", name, rows) for name in only]
    named += [("run.baseline =", spec.run.baseline, rows)] if spec.run.baseline else []
    for label, claim in spec.claims.items():
        named += [
            (f"claims.{label}:", side, {*rows, *spec.teachers})
            for side in (claim.better, claim.than)
        ]
    for label, figure in spec.figures.items():
        named += [(f"figures.{label}.rows:", name, rows) for name in figure.rows]
        named += [(f"figures.{label}.x =", figure.x, swept)] if figure.kind == "sweep" else []
    for place, name, known in named:
        if name in spec.reference.keys() - rows:
            file = missing_file(spec.reference[name], spec.run)
            remedy = f"name its {file[0]} with {file[1]}" if file else "name a row that is run"
            raise UserError(
                f"study {spec.name}: {place} {name!r} has printed numbers alone", remedy
            )
        check_known(f"study {spec.name}: {place}", name, sorted(known))


def _short(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else f"{value:g}"
        if isinstance(value, float)
        else json.dumps(value)
    )


def check_step(then: str, words: bool) -> None:
    """Check that the step that a row's ``then`` names can stand behind the row's model, or its
    ``words``.
    """
    step = post_step(then, f"then = {then!r}") if then else None
    if step and (
        step.fit != TARGET or step.sentences is not None or (isinstance(step, Sif) and not words)
    ):
        remedy = "write whitening or flow, fitted on the row's sentences or with fit=target; sif if vectors = true"
        raise UserError(f"then = {then!r} is not possible", remedy)


def _count(spec: Spec, label: str, asked: Any, row: RowSettings) -> int | None:
    """How many sentences a row takes. Up to 1 it is a share of the run's; documents of its own are
    read whole.
    """
    common = None if row.documents else spec.run.sentences
    if asked is None:
        return common
    if not isinstance(asked, int | float) or asked <= 0 or (asked <= 1 and common is None):
        remedy = "choose a number, or with run.sentences a share of them"
        raise UserError(
            f"study {spec.name}: row {label!r}: sentences = {asked!r} is not possible", remedy
        )
    return round(asked * (common or 0)) if asked <= 1 else int(asked)
