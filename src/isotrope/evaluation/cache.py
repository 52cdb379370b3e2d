"""Results that were computed once: the same model on the same data by the same code is not evaluated again."""

from collections.abc import Callable, Mapping
from functools import cache as once
from pathlib import Path
from typing import Any

import xxhash

from isotrope.errors import UserError
from isotrope.store.cache import remembered

CODE = ("text", "encoder", "evaluation", "post")  # rooms of the package whose code decides a result


def remembered_result(key: Mapping[str, Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result that is kept under ``key``, or a computed one, which is kept then.

    A damaged file counts as missing. A file that cannot be written is not kept: the result stands.

    Args:
        key: all that decides the result but the code, which is added here: changed code computes again.
        compute: gives the result, ready for JSON.
    """
    return dict(remembered("results", {**key, "code": code_checksum()}, compute))


def data_checksum(data: Path, subfolders: tuple[str, ...]) -> str:
    """Checksum over names and bytes of all files in some folders of the data folder.

    All files of the data folder count if it is one of those folders itself. Any other folder is not read: it may be a
    whole disk, and loading says what is missing.
    """
    digest = xxhash.xxh3_128()
    itself = ["."] if data.name in subfolders else []
    for folder in [name for name in subfolders if (data / name).is_dir()] or itself:
        for path in sorted(path for path in (data / folder).rglob("*") if path.is_file()):
            digest.update(f"{path.relative_to(data)}\n".encode(errors="surrogateescape"))
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
