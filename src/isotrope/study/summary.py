"""What a study's record keeps of its cells besides scores: what was run, on which machine, and how long it took."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xxhash

from isotrope.store.records import Record


def cells_summary(results: Mapping[str, Mapping[str, Any]]) -> Record:
    """Key -> a cell's ``result.json`` without its scores, which the rows have; what many cells share is stored once.

    ``settings`` is checksum -> resolved preset; for ``data`` and ``environments`` a cell has an index into the list.
    """
    record: Record = {"cells": {}, "settings": {}, "data": [], "environments": []}
    for key, result in results.items():
        settings = without_paths(result["settings"])
        checksum = xxhash.xxh3_64_hexdigest(json.dumps(settings, sort_keys=True).encode())
        record["settings"][checksum] = settings
        record["cells"][key] = {
            "preset": result["preset"],
            "seed": result["seed"],
            "settings": checksum,
            "data": _place(record["data"], result["data"]),
            "environment": _place(record["environments"], result["environment"]),
            "seconds": result["seconds"],
        }
    return record


def without_paths(value: Any) -> Any:
    """A value without paths of this machine: of an absolute path only the last two names are kept."""
    if isinstance(value, Mapping):
        return {key: without_paths(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_paths(one) for one in value]
    return "/".join(Path(value).parts[1:][-2:]) if isinstance(value, str) and Path(value).is_absolute() else value


def _place(known: list[Any], value: Any) -> int:
    if value not in known:
        known.append(value)
    return known.index(value)
