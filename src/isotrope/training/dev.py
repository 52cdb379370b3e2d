"""The dev sets that ``dev`` names: SentEval's, or the user's own pairs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from isotrope.data.pairs import Pairs, read_pairs
from isotrope.data.senteval import load_sts
from isotrope.errors import UserError

DEV_SETS = {
    "stsb-dev": "STSBenchmark",
    "sickr-dev": "SICKRelatedness",
    "stsb": "STSBenchmark",
    "sickr": "SICKRelatedness",
}


def dev_names(given: Iterable[str]) -> list[str]:
    """The sets that ``dev`` names, one by one: ``none`` is none of them."""
    return [part for names in given for part in names.split(",") if part != "none"]


def dev_pairs(names: Iterable[str], data: str | Path | None) -> dict[str, Pairs]:
    """The pairs of the sets that `dev_names` found, each under its own name.

    Raises:
        UserError: an unknown or missing set, a file that holds no pairs, two of one name.
    """
    found: dict[str, Pairs] = {}
    for name in names:
        pairs = _dev_set(name, data)
        label = name if name in DEV_SETS else pairs.name
        if label in found:
            raise UserError(f"two dev sets are called {label!r}", "rename a file, or name each set once")
        found[label] = pairs
    return found


def _dev_set(name: str, data: str | Path | None) -> Pairs:
    if name in DEV_SETS:
        return load_sts(data, DEV_SETS[name], ["dev"])["dev"]
    if name.endswith((".tsv", ".csv")) or Path(name).is_file():
        return read_pairs(name)
    raise UserError(f"dev set {name!r} is unknown", f"choose {', '.join(DEV_SETS)}, a .tsv file, or none")
