"""A study with the settings that a search found for its rows and teachers."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

from isotrope.errors import UserError
from isotrope.study.rows import expand_rows
from isotrope.study.spec import RowSettings, Settings, Spec


def training(row: RowSettings) -> str:
    """What decides a row's training, as text: equal for rows that differ in ``then`` only."""
    decides = {
        "preset",
        "set",
        "sweep",
        "scale",
        "search",
        "sentences",
        "documents",
        "positive",
    }
    return row.model_dump_json(include=decides)


def with_tuned(
    spec: Spec, file: str | Path, only: Sequence[str] = (), *, search: bool = False
) -> Spec:
    """The study, its rows and teachers with the best settings that a search found
    (``search.toml``).

    In a ``search``, the teachers alone have them: the rows are what it searches.

    UserError: the file is no search.toml, or lacks a trained row (of those in ``only``).
    """
    by_row = _settings_in(file, spec)
    by_training = {
        training(spec.rows[label]): settings for label, settings in reversed(by_row.items())
    }
    needed = _rows_that_need_settings(spec, only, search)
    if search and not needed:
        raise UserError(
            f"{file} has no effect: no teacher is tuned", "leave --tuned out", code="no-effect"
        )
    for label in needed:
        if training(spec.rows[label]) not in by_training:
            raise UserError(
                f"{file} has no settings for the row {label!r}",
                "name the search.toml that --search wrote for all these rows",
                code="no-settings",
            )

    teachers = dict(spec.teachers)
    for name, teacher in spec.teachers.items():
        if not teacher.tuned:
            continue
        settings = by_training.get(training(spec.rows[teacher.tuned]))
        if settings is not None:
            changes = {"set": (*teacher.set, *settings), "tuned": ""}
            teachers[name] = teacher.model_copy(update=changes)
    rows = dict(spec.rows)
    for label, row in spec.rows.items():
        if row.train and not search:
            settings = by_row.get(label, by_training.get(training(row), ()))
            changes = {"set": (*row.set, *settings)}
            rows[label] = row.model_copy(update=changes)
    return spec.model_copy(update={"teachers": teachers, "rows": rows})


def _settings_in(file: str | Path, spec: Spec) -> dict[str, Settings]:
    """The best settings of the study's rows in a ``search.toml``; {} if there is no such file."""
    try:
        tables = tomllib.loads(Path(file).read_text(encoding="utf-8"))["rows"]
        return {
            label: tuple(map(str, row["set"]))
            for label, row in tables.items()
            if label in spec.rows
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _rows_that_need_settings(spec: Spec, only: Sequence[str], search: bool) -> list[str]:
    if search:
        return [teacher.tuned for teacher in spec.teachers.values() if teacher.tuned]
    entries = expand_rows(spec, only).values()
    return [entry.base for entry in entries if entry.row.train]
