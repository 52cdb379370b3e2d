"""Results that were computed once: the same model on the same data by the same code is not evaluated again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import cache as once
from pathlib import Path
from typing import Any

import xxhash

from isotrope.errors import UserError
from isotrope.store.cache import cache_folder

CODE = ("text", "encoder", "evaluation", "post")  # folders of the package whose code decides a result


def remembered(key: Mapping[str, Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result that is kept under `key`, or a computed one, which is kept then.

    The key has to hold all that decides the result but the code, which is added here: a changed evaluation begins anew.
    A file that cannot be read counts as missing; one that cannot be written is not kept, since the result stands.
    """
    digest = xxhash.xxh3_128_hexdigest(json.dumps({**key, "code": code_checksum()}, sort_keys=True).encode())
    path = cache_folder("results", f"{digest}.json")
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        pass
    result = compute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.part")
        draft.write_text(json.dumps(result), encoding="utf-8")
        draft.replace(path)
    except OSError:
        pass
    return result


def data_checksum(data: Path, subfolders: tuple[str, ...]) -> str:
    """Checksum over names and bytes of all files in some folders of the data folder.

    Where it holds none of them, as when it is one of them itself, all of its files count.

    Raises UserError for a file that cannot be read.
    """
    digest = xxhash.xxh3_128()
    for folder in [name for name in subfolders if (data / name).is_dir()] or ["."]:
        for path in sorted(path for path in (data / folder).rglob("*") if path.is_file()):
            digest.update(f"{path.relative_to(data)}\n".encode())
            try:
                digest.update(path.read_bytes())
            except OSError as error:
                raise UserError(f"{path} cannot be read ({error.strerror})", "check its permissions") from error
    return digest.hexdigest()


@once
def code_checksum() -> str:
    """Checksum of the code that decides a result."""
    digest = xxhash.xxh3_128()
    package = Path(__file__).parents[1]
    for folder in CODE:
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
