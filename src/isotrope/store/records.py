"""isotrope's own records: JSON and JSON Lines. They are read only here, so that any damage gives
one clear line.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from isotrope.errors import UserError
from isotrope.store.atomic import write_text

Record = dict[str, Any]


def read_record(
    path: Path, keys: Collection[str] = (), remedy: str = "delete it, or choose another folder"
) -> Record:
    """A JSON object that isotrope wrote; UserError if it is missing, damaged, or lacks one of the
    ``keys``.

    With ``keys`` as ``{"scores": dict}``, their values have these types.
    """
    kinds: Mapping[str, type] = keys if isinstance(keys, Mapping) else dict.fromkeys(keys, object)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        whole = isinstance(record, dict) and all(
            isinstance(record[key], kind) for key, kind in kinds.items()
        )
    except (OSError, ValueError, KeyError) as error:
        raise UserError(
            f"{path} is {'damaged' if path.is_file() else 'missing'} ({error})", remedy
        ) from error
    if not whole:
        raise UserError(f"{path} is damaged", remedy)
    return record  # type: ignore[no-any-return]


class RecordLog:
    """Records, one a line (JSON Lines), to which a process appends. A line that a kill cut short is
    ignored.
    """

    def __init__(self, path: Path, writing: bool = True) -> None:
        """Read what is there. Only the process that is ``writing`` changes the file."""
        self.path, self.writing, self.records = path, writing, list[Record]()
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        lines = text.splitlines()
        with suppress(ValueError, TypeError):
            for line in lines:
                self.records.append(dict(json.loads(line)))
        if len(self.records) < len(lines) or (text and not text.endswith("\n")):
            self.keep(self.records)  # else the next record would follow half a line

    def keep(self, records: Sequence[Record]) -> None:
        """Hold these, and no others."""
        self.records = list(records)
        if self.writing:
            write_text(self.path, "".join(json.dumps(record) + "\n" for record in self.records))

    def add(self, record: Record) -> None:
        """Append one."""
        self.records.append(record)
        if self.writing:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
