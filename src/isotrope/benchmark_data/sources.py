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
    tables = tomllib.loads(text)["source"]
    return TypeAdapter(tuple[DataSource, ...]).validate_python(tables)


def choose(names: Iterable[str] = ()) -> tuple[DataSource, ...]:
    """Sources by their names, or those of a group, in any case; none named: all but the corpus;
    "all": all.

    Raises UserError for an unknown name.
    """
    sources = data_sources()
    chosen_names = [name.strip().lower() for name in names] or USUAL_GROUPS
    all_names = [*GROUPS, *(source.name for source in sources)]
    lower_names = sorted(map(str.lower, [*all_names, "all"]))
    for name in chosen_names:
        if name not in lower_names:
            raise UserError(
                f"no data set {name!r}",
                f"{nearest(name, lower_names)}choose from {', '.join(all_names)} or all",
                code="unknown-data-set",
            )
    chosen = []
    for source in sources:
        its_names = {source.name.lower(), source.group, "all"}
        if its_names.intersection(chosen_names):
            chosen.append(source)
    return tuple(chosen)


def existing_folder(data: str | Path) -> Path:
    """The folder of the data.

    Raises UserError if it does not exist.
    """
    folder = Path(data).expanduser()
    if not folder.is_dir():
        raise UserError(
            f"the data folder {folder} does not exist",
            "check the path, or run isotrope data fetch first",
            code="no-data-folder",
        )
    return folder


class Fault(NamedTuple):
    """What is wrong with a file."""

    kind: str  # in a word: missing, unreadable, swapped, corrupt or changed
    detail: str  # in full


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
    folder = existing_folder(data)
    names = list(names)
    checked = []
    for source in choose(names):
        is_required = bool(names) or source.group in REQUIRED
        checked.append(_check(folder, source, is_required))
    return checked


def _check(folder: Path, source: DataSource, is_required: bool) -> Checked:
    """Compare the files of one source, official and prepared, with what they should be."""
    fetch = f"isotrope data fetch {folder} --only {source.name}"
    prepare = f"isotrope data prepare {folder} --only {source.name}"
    used_folder = source.prepared_folder or source.folder
    is_fetched = _any_exists(folder / source.folder, source.files)
    is_prepared = _any_exists(folder / used_folder, source.prepared)
    if not is_fetched and not is_prepared:
        if not is_required:
            return Checked(source, "not fetched", [])
        finding = Finding(used_folder, "missing", "nothing there", fetch)
        return Checked(source, "wrong", [finding])

    findings = []
    if is_fetched:
        findings += _findings(folder, source.folder, source.files, fetch)
    if is_prepared:
        remedy = prepare if is_fetched else f"{fetch}, then prepare it"
        findings += _findings(folder, used_folder, source.prepared, remedy)
    elif source.prepared and not findings:
        finding = Finding(used_folder, "not prepared", "the official files alone", prepare)
        return Checked(source, "not prepared", [finding])
    return Checked(source, "wrong" if findings else "right", findings)


def _any_exists(folder: Path, files: Iterable[File]) -> bool:
    return any((folder / file.name).exists() for file in files)


def _findings(folder: Path, below: str, files: Iterable[File], remedy: str) -> list[Finding]:
    """What is wrong with the files below a folder; a licence may be missing."""
    findings = []
    for file in files:
        path = f"{below}/{file.name}"
        wrong = fault(folder / path, file)
        if wrong and not file.document:
            findings.append(Finding(path, *wrong, remedy))
    return findings


def fault(path: Path, file: File) -> Fault | None:
    """What is wrong with the file at ``path``, which should be ``file``; None: nothing is."""
    # A pipe, for example, from which nothing may ever come.
    is_folder_or_file = path.is_dir() or path.is_file()
    if path.exists() and not is_folder_or_file:
        return Fault("unreadable", "not a file")
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return Fault("missing", "not there")
    except OSError as error:
        return Fault("unreadable", str(error.strerror))

    sha256 = hashlib.sha256(content).hexdigest()
    lines = content.count(b"\n")
    if content and not content.endswith(b"\n"):
        lines += 1
    is_right = sha256 == file.sha256 if file.sha256 else lines == file.lines
    if is_right:
        return None

    twin = _file_with(sha256)
    if twin:
        return Fault("swapped", f"it is {twin}")
    if lines != file.lines:
        return Fault("corrupt", f"{lines} lines, {file.lines} expected")
    return Fault("changed", f"{lines} lines as expected, but other text")


def _file_with(sha256: str) -> str | None:
    """The path below the data folder of the file that has this checksum."""
    for source in data_sources():
        for folder, source_files in (
            (source.folder, source.files),
            (source.prepared_folder, source.prepared),
        ):
            for file in source_files:
                if file.sha256 == sha256:
                    return f"{folder}/{file.name}"
    return None
