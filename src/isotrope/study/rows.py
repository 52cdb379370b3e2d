"""A study's rows after its sweeps: one entry for each combination of values."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from isotrope.errors import UserError
from isotrope.study.spec import Row, Spec

SENTENCES = "sentences"  # the one key of a sweep that is not a preset's


@dataclass(frozen=True, slots=True)
class Entry:
    """A row to run; where it comes from a sweep, ``base`` is the row in the file and ``at`` the values."""

    label: str
    row: Row
    base: str
    at: Mapping[str, Any] = field(default_factory=dict)

    @property
    def overrides(self) -> list[str]:
        """``key=value``: the row's own, then the sweep's."""
        return [*self.row.set, *(f"{key}={json.dumps(value)}" for key, value in self.at.items() if key != SENTENCES)]


def expand(spec: Spec, only: Sequence[str] = (), sweep: Mapping[str, Sequence[Any]] | None = None) -> dict[str, Entry]:
    """The rows to run, sweeps expanded: label -> entry.

    Args:
        spec: the study.
        only: labels of the rows to keep, before or after expansion; (): all.
        sweep: further keys and values, over every row.

    Raises:
        UserError: ``only``, a claim, a figure or the baseline names a row that there is not; two rows have one name;
            a figure's key is not swept, or not over numbers.
    """
    everything: dict[str, Entry] = {}
    for base, row in spec.rows.items():
        axes = {**row.sweep, **(sweep or {})} if row.train else {}
        for values in itertools.product(*axes.values()):
            at = dict(zip(axes, values, strict=True))
            label = ", ".join([base, *(f"{key.rsplit('.', 1)[-1]} = {_short(value)}" for key, value in at.items())])
            if label in everything:
                raise UserError(f"study {spec.name}: two rows are {label!r}", "rename one, or name each value once")
            everything[label] = Entry(label, row, base, at)
    _check_names(spec, everything)
    names = {name for entry in everything.values() for name in (entry.label, entry.base)}
    if unknown := [name for name in only if name not in names]:
        raise UserError(f"study {spec.name} has no row {unknown[0]!r}", f"choose from {', '.join(spec.rows)}")
    return {label: entry for label, entry in everything.items() if not only or {label, entry.base} & set(only)}


def _check_names(spec: Spec, entries: Mapping[str, Entry]) -> None:
    bases = {entry.base for entry in entries.values()}
    both = {*entries, *bases}
    named = [("run.baseline", spec.run.baseline, both)] if spec.run.baseline else []
    for label, claim in spec.claims.items():
        named += [(f"claims.{label}", side, {*both, *spec.teachers}) for side in (claim.better, claim.than)]
    for label, figure in spec.figures.items():
        named += [(f"figures.{label}.rows", name, both) for name in figure.rows]
        if figure.kind == "sweep":
            _check_axis(spec, label, figure.x, entries)
    for place, name, known in named:
        if name not in known:
            raise UserError(
                f"study {spec.name}: {place} names {name!r}, which is no row", f"choose from {_list(known)}"
            )


def _check_axis(spec: Spec, figure: str, key: str, entries: Mapping[str, Entry]) -> None:
    values = [entry.at[key] for entry in entries.values() if key in entry.at]
    if not values or not all(isinstance(value, int | float) for value in values):
        problem = f"study {spec.name}: figures.{figure}.x = {key!r} is no key that is swept over numbers"
        raise UserError(problem, "add it to a row's sweep, or give --sweep")


def _list(names: set[str]) -> str:
    return ", ".join(sorted(names))


def _short(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else json.dumps(value)
