"""``[pairs]`` of a preset: how its text is read, where that is documents and not texts."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from isotrope.components.registry import READING, component, is_third_party, kinds
from isotrope.errors import UserError
from isotrope.text.pair_corpus import PairMaker

MOST_ROUNDS = 64


def check_pairs(table: Mapping[str, Any], third_parties: bool) -> None:
    """Check the options; those of a third party's class, which is imported, or those of all others."""
    kind, _, options = _parts(table)
    if is_third_party(kind) == third_parties:
        with _named_by_preset(kind):
            component(READING, kind, **options)


def pair_maker(table: Mapping[str, Any]) -> tuple[PairMaker, int]:
    """The component that draws pairs, and how many it draws of each document."""
    kind, rounds, options = _parts(table)
    with _named_by_preset(kind):
        return component(READING, kind, **options), rounds


def _parts(table: Mapping[str, Any]) -> tuple[str, int, dict[str, Any]]:
    kind, rounds = table.get("kind"), table.get("rounds", 1)
    if not isinstance(kind, str):
        remedy = f"choose one of {', '.join(kinds(READING))}, or name a module:Class"
        raise UserError(f"pairs.kind = {kind!r} is not possible", remedy)
    if type(rounds) is not int or not 1 <= rounds <= MOST_ROUNDS:
        raise UserError(f"pairs.rounds = {rounds!r} is not possible", f"choose a whole number from 1 to {MOST_ROUNDS}")
    return kind, rounds, {key: value for key, value in table.items() if key not in ("kind", "rounds")}


@contextmanager
def _named_by_preset(kind: str) -> Iterator[None]:
    """A mistake in an option is named as it stands in the preset, whose table is not called after the kind."""
    try:
        yield
    except UserError as error:
        problem, remedy = (said.replace(f"{READING}.{kind}", READING) for said in (error.problem, error.remedy))
        raise UserError(problem, remedy) from error
