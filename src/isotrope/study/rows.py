"""A study's rows after its sweeps: one entry for each combination of values."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from isotrope.errors import UserError, check_known
from isotrope.post.fitted import TARGET
from isotrope.post.names import post_step
from isotrope.store.files import Record
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
    at: Record = field(default_factory=dict)
    # of the whole text, if the row has a share of it: a number of sentences once the text is read
    share: float | None = None


def expand_rows(spec: Spec, only: Sequence[str] = ()) -> dict[str, PlannedRow]:
    """The rows to run, sweeps expanded: label -> entry.

    ``only`` names the rows to keep, before or after expansion (all if empty).
    """
    entries: dict[str, PlannedRow] = {}
    for base, row in spec.rows.items():
        for values in itertools.product(*row.sweep.values()):
            at = dict(zip(row.sweep, values, strict=True))
            entry = _entry(spec, base, row, at)
            if entry.label in entries:
                raise UserError(
                    f"study {spec.name}: two rows are called {entry.label!r}",
                    "rename one, or name each value once",
                    code="same-name",
                )
            entries[entry.label] = entry
    _check_names(spec, entries, only)
    selected = {}
    for label, entry in entries.items():
        if not only or label in only or entry.base in only:
            selected[label] = entry
    return selected


def _entry(spec: Spec, base: str, row: RowSettings, at: Record) -> PlannedRow:
    """A row with these swept values: its label is as "SimCSE, sentences = 0.1"."""
    label = base
    settings = [*row.set]
    for key, value in at.items():
        last_word = key.rsplit(".", 1)[-1]
        label += f", {last_word} = {_short(value)}"
        if key != SENTENCES:
            settings.append(f"{key}={json.dumps(value)}")

    requested = at.get(SENTENCES, row.sentences)
    common = None if row.documents else spec.run.sentences
    count = None
    share_of_text = None
    if requested is None:
        count = common
    elif not isinstance(requested, int | float) or requested <= 0:
        raise UserError(
            f"study {spec.name}: row {label!r}: sentences = {requested!r} is not possible",
            "choose a number, or a share of the text up to 1",
            code="impossible-value",
        )
    elif requested > 1:
        count = int(requested)
    elif common is None:  # the text is not read yet
        share_of_text = float(requested)
    else:
        count = round(requested * common)
    changes = {"set": tuple(settings), SENTENCES: count}
    return PlannedRow(label, row.model_copy(update=changes), base, at, share_of_text)


def with_share(row: RowSettings, share: float, total: int) -> RowSettings:
    """The row on a text of so many sentences, of which it takes a share."""
    count = None if share == 1 else round(share * total)
    return row.model_copy(update={SENTENCES: count})


def _short(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)


def _check_names(spec: Spec, entries: Mapping[str, PlannedRow], only: Sequence[str]) -> None:
    """Refuse names of rows, teachers and keys that the study does not have."""
    rows = {*entries, *spec.rows}
    for name in only:
        _check_name(spec, "--rows:", name, rows)
    if spec.run.baseline:
        _check_name(spec, "run.baseline =", spec.run.baseline, rows)
    models = rows.union(spec.teachers)
    for label, claim in spec.claims.items():
        _check_name(spec, f"claims.{label}:", claim.better, models)
        _check_name(spec, f"claims.{label}:", claim.than, models)

    swept_numbers = set()
    for entry in entries.values():
        for key, value in entry.at.items():
            if isinstance(value, int | float):
                swept_numbers.add(key)
    for label, figure in spec.figures.items():
        for name in figure.rows:
            _check_name(spec, f"figures.{label}.rows:", name, rows)
        if figure.kind == "sweep":
            _check_name(spec, f"figures.{label}.x =", figure.x, swept_numbers)


def _check_name(spec: Spec, where: str, name: str, possible: set[str]) -> None:
    """Check a name that an option or a key of the file gives."""
    where = f"study {spec.name}: {where}"
    if name not in possible and name in spec.reference:
        missing = missing_file(spec.reference[name], spec.run)
        remedy = "name a row that is run"
        if missing:
            remedy = f"name its {missing.content} with {missing.option}"
        raise UserError(f"{where} {name!r} has printed numbers alone", remedy, code="not-run")
    check_known(where, name, sorted(possible))


def check_step(then: str) -> None:
    """Check that the step that a row's ``then`` names can stand behind the row's model."""
    if not then:
        return
    step = post_step(then, f"then = {then!r}")
    if step.fit != TARGET or step.sentences is not None:  # it is fitted elsewhere
        raise UserError(
            f"then = {then!r} is not possible",
            "write whitening or flow, fitted on the row's sentences or with fit=target",
            code="impossible-step",
        )
