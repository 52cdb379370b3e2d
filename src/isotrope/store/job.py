"""Long work in a folder: who holds it, what it is, whether it is done, and how it goes on.

A job's folder has the mark of its kind (`isotrope.store.files`), a lock while a process works
there, and two files:

    job.json     the identity: everything that decides the result, and nothing else
    result.json  what came out, written last; under "files" the checksums of what it announces
"""

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock, Timeout

from isotrope.errors import UserError
from isotrope.store.files import (
    LOCK,
    MARK,
    Record,
    check_place,
    checksums,
    claim,
    clear_drafts,
    empty,
    is_empty_file,
    is_leftover,
    read_record,
    sealed,
    write_json,
    writing,
)

IDENTITY = "job.json"
RESULT = "result.json"
FILES = "files"
AGAIN = "give the same command again"
_CHECKSUM = re.compile("[0-9a-f]{32}")


class Source(Protocol):
    """Opened text, as a job sees it. `check` raises UserError if its files have changed."""

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
        sources: the folder may not be inside them, and they may not change before the result is
            written.
        restart: forget what an earlier call left in the folder.
        names: of the two files.
        harmless: patterns of names that may be there without an identity, since these files say
            themselves which work they belong to.
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
        harmless: Sequence[str] = (),
        shown: str | None = None,
    ) -> None:
        if folder is None:
            # Goes with this object.
            self._temporary = tempfile.TemporaryDirectory(prefix="isotrope-")
            folder = self._temporary.name
        elif not str(folder):
            # An unset variable of the shell would mean the current folder.
            raise UserError("the output is empty", "name a folder", "empty-output")
        self.folder = Path(folder)
        self.kind = kind
        self.sources = sources
        self.restart = restart
        self.identity: Record = json.loads(json.dumps(identity))
        self._harmless = harmless
        self._shown = shown or str(self.folder)
        self._identity_file = self.folder / names[0]
        self._result_file = self.folder / names[1]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Take the folder for this process only. If nothing is written there, it is left as it was.

        UserError if it is not ours, is inside the sources, is in use, was begun with another
        identity, or cannot be written.
        """
        self._check_sources()
        check_place(self.folder, self.kind)
        with writing(self.folder, AGAIN):
            claim(self.folder, self.kind)
            with alone(self.folder, MARK):
                if self.restart:
                    empty(self.folder, MARK, LOCK)
                    self.restart = False  # when the folder is taken again, the work goes on
                self._refuse_another()
                yield

    @property
    def begun(self) -> bool:
        """Whether the folder holds this work already, finished or not.

        An identity without a byte, which a loss of power may leave, counts as missing.
        """
        return self._identity_file.is_file() and not is_empty_file(self._identity_file)

    @property
    def lost(self) -> bool:
        """Whether the work was finished once, and what it announced is missing or damaged."""
        return self._result_file.is_file() and self.result() is None

    def begin(self) -> None:
        """Write the identity. Call it when no mistake of the user's is left to be found."""
        if not self.begun:
            write_json(self._identity_file, self.identity)

    def result(self) -> Record | None:
        """What `finish` wrote; None if it, or what it announced, is missing or damaged."""
        with suppress(UserError):  # damaged: it is made again
            record = read_record(self._result_file, {FILES: dict})
            announced = record.pop(FILES)
            if self._checksums(announced) == announced:
                return record
        return None

    def finish(self, result: Mapping[str, Any], announced: Sequence[str] = ("model",)) -> Record:
        """Write the result, and the checksums of the ``announced`` folders.

        UserError if a source has changed.
        """
        for source in self.sources:
            source.check()
        files = self._checksums(announced)
        write_json(self._result_file, sealed({**result, FILES: files}))
        return json.loads(json.dumps(result))  # type: ignore[no-any-return]

    def _checksums(self, folders: Iterable[str]) -> dict[str, dict[str, str]]:
        """The checksums of announced folders. Cards are left out, because people write in them."""
        files: dict[str, dict[str, str]] = {}
        for name in folders:
            folder = self.folder / name
            sums = checksums(folder) if folder.is_dir() else {}
            files[name] = {file: sums[file] for file in sums if not file.endswith(".md")}
        return files

    def _check_sources(self) -> None:
        folder = self.folder.resolve()
        for source in self.sources:
            for source_folder in source.folders:
                if folder.is_relative_to(source_folder.resolve()):
                    problem = f"{self.folder} is inside {source_folder}, which is read"
                    raise UserError(problem, "choose an --output elsewhere", "output-in-input")

    def _refuse_another(self) -> None:
        remedy = "choose another --output, or begin anew with --restart"
        if self.begun:
            identity = read_record(self._identity_file, remedy=remedy)
            changes = differences(identity, self.identity)
            if changes:
                problem = f"{self._shown} was begun with {'; '.join(changes)}"
                raise UserError(problem, remedy, "begun-differently")
            return

        names = [path.name for path in self.folder.iterdir() if not self._is_leftover(path)]
        if names:
            name = self._identity_file.name
            problem = f"{self._shown} holds {min(names)}, but no {name} that says what it is of"
            raise UserError(problem, remedy, "no-identity")

    def _is_leftover(self, path: Path) -> bool:
        own_names = (self._identity_file.name, self._result_file.name)
        if path.name in own_names and is_empty_file(path):
            return True
        return is_leftover(path) or any(map(path.match, self._harmless))


def differences(then: Mapping[str, Any], now: Mapping[str, Any], within: str = "") -> list[str]:
    """What differs between two identities, in words: ``seed = 1, not 2``, ``another corpus``."""
    changes: list[str] = []
    for key in {**then, **now}:
        old = then.get(key)
        new = now.get(key)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            changes += differences(old, new, f"{within}{key}: ")
        elif _is_checksum(old) or _is_checksum(new):
            word = "other" if key.endswith("s") else "another"
            changes.append(f"{within}{word} {key}")
        else:
            changes.append(f"{within}{key} = {old!r}, not {new!r}")
    return changes


def _is_checksum(value: object) -> bool:
    return isinstance(value, str) and _CHECKSUM.fullmatch(value) is not None


@contextmanager
def alone(folder: Path, *tidied: str) -> Iterator[None]:
    """Hold an existing folder of ours for this process, and remove a killed one's drafts.

    At the end, the files ``tidied`` are deleted if the folder holds nothing else. UserError if
    another process holds it.
    """
    try:
        with FileLock(folder / LOCK).acquire(timeout=0):
            clear_drafts(folder)
            try:
                yield
            finally:
                _tidy(folder, {LOCK, *tidied})
    except Timeout as error:
        problem = f"{folder} is in use by another process"
        remedy = "wait for it, or choose another folder"
        raise UserError(problem, remedy, "folder-in-use") from error


def _tidy(folder: Path, names: set[str]) -> None:
    if not folder.is_dir():  # encode has removed it
        return
    if {path.name for path in folder.iterdir()} <= names:
        for name in names:
            (folder / name).unlink(missing_ok=True)


@contextmanager
def in_turn(path: Path) -> Iterator[None]:
    """Lock ``path``, a file or folder that may not exist yet, while it is made. Others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}{LOCK}")):
        yield
