"""Long work in a folder: who holds it, what it is, whether it is done, and how it goes on after a
stop.

A job's folder has the mark of its kind (`isotrope.store.mark`), a lock while a process works there,
and two files:

    job.json     the identity: everything that decides the result, and nothing else
    result.json  what came out, written last; beside it, under "files", the checksums of what it announces
"""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from isotrope.errors import UserError
from isotrope.store.atomic import alone, write_json
from isotrope.store.cache import checksums
from isotrope.store.disk import writing
from isotrope.store.mark import LOCK, MARK, check_place, claim, empty, leftover
from isotrope.store.records import Record, read_record

IDENTITY, RESULT, FILES = "job.json", "result.json", "files"
AGAIN = "give the same command again"
_CHECKSUM = re.compile("[0-9a-f]{32}")


class Source(Protocol):
    """Opened text, as a job sees it. `check` raises UserError if its files are not those that were
    read.
    """

    @property
    def folders(self) -> Sequence[Path]: ...
    def check(self) -> None: ...


class Job:
    """One piece of long work. The same call goes on where an earlier one stopped.

    Inside ``with job.held():``, call `begin` after the last check of what the user gave, and
    `finish` at the end.

    Args:
        folder: where it works; None: a temporary folder, which lives as long as this object.
        kind: the mark of the folder: "run", "improvement", …
        identity: everything that decides the result, as JSON takes it.
        sources: the folder may not lie among them, and they may not change before the result is
            written.
        restart: forget what an earlier call left in the folder.
        names: of the two files.
        shown: what messages call the folder.
    """

    def __init__(
        self,
        folder: str | Path | None,
        kind: str,
        identity: Mapping[str, Any],
        sources: Sequence[Source] = (),
        *,
        restart: bool = False,
        names: tuple[str, str] = (IDENTITY, RESULT),
        shown: str | None = None,
    ) -> None:
        # an unset variable of the shell would mean the present folder
        if folder is not None and not str(folder):
            raise UserError("the output is empty", "name a folder")
        if folder is None:
            # goes with this object
            self._temporary = tempfile.TemporaryDirectory(prefix="isotrope-")
            folder = self._temporary.name
        self.folder = Path(folder)
        self.kind, self.sources, self.restart = kind, sources, restart
        self.identity: Record = json.loads(json.dumps(identity))
        self._shown = shown or str(self.folder)
        self._begun, self._finished = self.folder / names[0], self.folder / names[1]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Take the folder for this process only. If nothing is written there, it is left as it was.

        UserError if it is not ours, lies among the sources, is in use, was begun with another
        identity, or cannot be written.
        """
        for inside in (place for source in self.sources for place in source.folders):
            if self.folder.resolve().is_relative_to(inside.resolve()):
                raise UserError(
                    f"{self.folder} lies in {inside}, which is read", "choose an --output elsewhere"
                )
        check_place(self.folder, self.kind)
        with writing(self.folder, AGAIN):
            claim(self.folder, self.kind)
            with alone(self.folder, MARK):
                if self.restart:
                    empty(self.folder, MARK, LOCK)
                    self.restart = False  # who takes the folder again goes on
                self._refuse_another()
                yield

    @property
    def begun(self) -> bool:
        """Whether the folder holds this work already, finished or not."""
        return self._begun.is_file()

    @property
    def lost(self) -> bool:
        """Whether the work was finished once, and what it announced is missing or damaged."""
        return self._finished.is_file() and self.result() is None

    def begin(self) -> None:
        """Write the identity. Call it when no mistake of the user's is left to be found."""
        if not self.begun:
            write_json(self._begun, self.identity)

    def result(self) -> Record | None:
        """What `finish` wrote; None if the work is not finished, or what it announced is missing or
        damaged.
        """
        with suppress(UserError):  # damaged: it is made again
            record = read_record(self._finished, {FILES: dict})
            if all(_sums(self.folder / name) == of for name, of in record.pop(FILES).items()):
                return record
        return None

    def finish(self, result: Mapping[str, Any], announced: Sequence[str] = ("model",)) -> Record:
        """Write the result, and the checksums of the ``announced`` folders; UserError if a source
        has changed.
        """
        for source in self.sources:
            source.check()
        write_json(
            self._finished,
            {**result, FILES: {name: _sums(self.folder / name) for name in announced}},
        )
        return json.loads(json.dumps(result))  # type: ignore[no-any-return]

    def _refuse_another(self) -> None:
        remedy = "choose another --output, or begin anew with --restart"
        if self.begun:
            found = differences(read_record(self._begun, remedy=remedy), self.identity)
            problem = f"was begun with {'; '.join(found)}"
        else:
            found = sorted(path.name for path in self.folder.iterdir() if not leftover(path))
            problem = (
                f"holds {', '.join(found[:1])}, but no {self._begun.name} that says what it is of"
            )
        if found:
            raise UserError(f"{self._shown} {problem}", remedy)


def differences(then: Mapping[str, Any], now: Mapping[str, Any], within: str = "") -> list[str]:
    """What differs between two identities, in words: ``seed = 1, not 2``, ``another corpus``."""
    found = []
    for key in {**then, **now}:
        old, new = then.get(key), now.get(key)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            found += differences(old, new, f"{within}{key}: ")
        elif any(isinstance(value, str) and _CHECKSUM.fullmatch(value) for value in (old, new)):
            found.append(f"{within}{'other' if key.endswith('s') else 'another'} {key}")
        else:
            found.append(f"{within}{key} = {old!r}, not {new!r}")
    return found


def _sums(folder: Path) -> dict[str, str]:
    """The checksums of an announced folder; cards are left out, since people write in them."""
    return (
        {name: of for name, of in checksums(folder).items() if not name.endswith(".md")}
        if folder.is_dir()
        else {}
    )
