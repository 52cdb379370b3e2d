"""What data there is (addresses, checksums, licences, from sources.toml), and what is wrong with a
copy of it.
"""

import hashlib
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

from isotrope.errors import UserError, nearest

REQUIRED = ("sts", "transfer")  # groups without which the papers' tables cannot be made
USUAL_GROUPS = (*REQUIRED, "retrieval", "words")
GROUPS = (*USUAL_GROUPS, "corpus")  # the corpus is large, and comes only if it is asked for


@dataclass(frozen=True, slots=True)
class File:
    """A file as it should be; size and sha256 are None if nobody has seen the whole of it: its
    lines count.
    """

    name: str
    lines: int  # "\n" ends a line; an unfinished last one counts
    size: int | None = None  # bytes
    sha256: str | None = None
    # if its origin has another name: below the address, or the official file's
    at: str | None = None

    @property
    def document(self) -> bool:
        """Whether it is a licence or a read-me, without which the data can be used."""
        return any(word in self.name.lower() for word in ("license", "readme"))


@dataclass(frozen=True, slots=True)
class DataSource:
    """A data set: what it is, whose, where it comes from, its files below the data folder.

    `address` ends in a slash and holds the files as they are; `archives` are the official
    downloads, whose members they are. If there is a `recipe`, `isotrope data prepare` makes the
    `prepared` files from them.
    """

    name: str
    group: str
    title: str
    rows: str
    licence: str
    home: str
    address: str
    folder: str
    files: tuple[File, ...]
    archives: tuple[str, ...] = ()
    recipe: str | None = None
    prepared_folder: str | None = None
    prepared: tuple[File, ...] = ()
    note: str | None = None  # what to know if a file of it is not as it should be

    @property
    def size(self) -> int:
        """Bytes to download; 0 if that is not known."""
        return sum(file.size or 0 for file in self.files)

    @property
    def verified(self) -> str:
        """How a download is verified: by "sha256", or "rows only"."""
        return "sha256" if all(file.sha256 for file in self.files) else "rows only"

    def url(self, file: File) -> str:
        """Where the file is downloaded from."""
        return self.address + (file.at or file.name)


@cache
def data_sources() -> tuple[DataSource, ...]:
    """Every source, in the order of sources.toml."""
    text = (files("isotrope.benchmark_data") / "sources.toml").read_text(encoding="utf-8")
    return TypeAdapter(tuple[DataSource, ...]).validate_python(tomllib.loads(text)["source"])


def choose(names: Iterable[str] = ()) -> tuple[DataSource, ...]:
    """Sources by their names, or those of a group, in any case; none named: all but the corpus;
    "all": all.

    Raises UserError for an unknown name.
    """
    wanted = [name.strip().lower() for name in names] or USUAL_GROUPS
    known = [*GROUPS, *(source.name for source in data_sources())]
    lower = sorted(name.lower() for name in (*known, "all"))
    for name in wanted:
        if name not in lower:
            raise UserError(
                f"no data set {name!r}",
                f"{nearest(name, lower)}choose from {', '.join(known)} or all",
            )
    return tuple(
        s
        for s in data_sources()
        if "all" in wanted or s.name.lower() in wanted or s.group in wanted
    )


def existing_folder(data: str | Path) -> Path:
    """The folder of the data; UserError if it does not exist."""
    if not (folder := Path(data).expanduser()).is_dir():
        raise UserError(
            f"the data folder {folder} does not exist",
            "check the path, or run isotrope data fetch first",
        )
    return folder


class Finding(NamedTuple):
    """One thing that is wrong: a file or folder below the data folder, in a word and in full, and
    the remedy.
    """

    path: str
    kind: str
    detail: str
    remedy: str


class Checked(NamedTuple):
    """A source, its state in a word or two, and what is wrong with it."""

    source: DataSource
    state: str
    findings: list[Finding]


def check_data(data: str | Path, names: Iterable[str] = ()) -> list[Checked]:
    """Compare the files below ``data`` with the sources: presence, lines and sha256.

    STS and the transfer tasks are wrong if they are absent, other sources only if ``names`` asks
    for them. If files are ``prepared``, these are what counts; the official files they are made of
    are checked if there are any.

    Raises UserError if the folder does not exist, or a name is unknown.
    """
    folder, names = existing_folder(data), list(names)
    return [
        _check(folder, source, bool(names) or source.group in REQUIRED) for source in choose(names)
    ]


def _check(folder: Path, source: DataSource, required: bool) -> Checked:
    def faults(below: str, files: Iterable[File], remedy: str) -> list[Finding]:
        found = (
            (file, fault(folder / below / file.name, file)) for file in files if not file.document
        )
        return [Finding(f"{below}/{file.name}", *wrong, remedy) for file, wrong in found if wrong]

    fetch, prepare = (
        f"isotrope data {verb} {folder} --only {source.name}" for verb in ("fetch", "prepare")
    )
    wanted = source.prepared_folder or source.folder
    fetched = any((folder / source.folder / file.name).exists() for file in source.files)
    made = any((folder / wanted / file.name).exists() for file in source.prepared)
    findings = faults(source.folder, source.files, fetch) if fetched else []
    if made:
        findings += faults(
            wanted, source.prepared, prepare if fetched else f"{fetch}, then prepare it"
        )
    elif fetched and source.prepared and not findings:
        return Checked(
            source,
            "not prepared",
            [Finding(wanted, "not prepared", "the official files alone", prepare)],
        )
    elif not fetched and required:
        findings = [Finding(wanted, "missing", "nothing there", fetch)]
    return Checked(
        source, "wrong" if findings else "right" if fetched or made else "not fetched", findings
    )


def fault(path: Path, file: File) -> tuple[str, str] | None:
    """What is wrong with the file at ``path``, which should be ``file``, in a word and in full;
    None: nothing is.
    """
    # a pipe, from which nothing may ever come
    if path.exists() and not (path.is_file() or path.is_dir()):
        return "unreadable", "not a file"
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return "missing", "not there"
    except OSError as error:
        return "unreadable", str(error.strerror)
    sha256, lines = (
        hashlib.sha256(content).hexdigest(),
        content.count(b"\n") + (content[-1:] not in (b"\n", b"")),
    )
    if file.sha256 == sha256 or (not file.sha256 and lines == file.lines):
        return None
    for source in data_sources():
        for folder, listed in (
            (source.folder, source.files),
            (source.prepared_folder, source.prepared),
        ):
            if name := next((one.name for one in listed if one.sha256 == sha256), None):
                return "swapped", f"it is {folder}/{name}"
    if lines != file.lines:
        return "corrupt", f"{lines} lines, {file.lines} expected"
    return "changed", f"{lines} lines as expected, but other text"
