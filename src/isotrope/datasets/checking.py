"""``isotrope data check``: what of the data in a folder is missing, corrupt or swapped, and what to do about it."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from isotrope.datasets.sources import REQUIRED, DataSource, File, choose, data_sources
from isotrope.errors import UserError


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: a file or folder below the data folder, in a word and in full, and the remedy."""

    path: str
    kind: str
    detail: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Checked:
    """A source with what was found: nothing is wrong where there are no findings."""

    source: DataSource
    findings: tuple[Finding, ...]
    absent: bool = False  # there is nothing of it

    @property
    def state(self) -> str:
        """In a word or two."""
        if self.findings:
            return "not prepared" if self.findings[0].kind == "not prepared" else "wrong"
        return "not fetched" if self.absent else "right"


def check_data(data: str | Path, names: Iterable[str] = ()) -> list[Checked]:
    """Compare the files below ``data`` with the sources: presence, lines and sha256.

    STS and the transfer tasks are wrong where they are absent, other sources only where ``names`` asks for them. Where
    files are ``prepared``, these are what counts; the official files they are made of are checked where there are any.

    Raises:
        UserError: the folder does not exist, or a name is unknown.
    """
    folder, names = Path(data).expanduser(), list(names)
    if not folder.is_dir():
        raise UserError(f"the data folder {folder} does not exist", "check the path, or run isotrope data fetch")
    return [_check(folder, source, bool(names) or source.group in REQUIRED) for source in choose(names)]


def _check(folder: Path, source: DataSource, required: bool) -> Checked:
    fetch, prepare = (f"isotrope data {verb} {folder} --only {source.name}" for verb in ("fetch", "prepare"))
    fetched = _any(folder / source.folder, source.files)
    made = source.prepared_folder is not None and _any(folder / source.prepared_folder, source.prepared)
    findings = _faults(folder, source.folder, source.files, fetch) if fetched else []
    if made:
        remedy = prepare if fetched else f"{fetch}, then prepare it"
        findings += _faults(folder, str(source.prepared_folder), source.prepared, remedy)
    elif fetched and source.prepared_folder and not findings:
        findings = [Finding(source.prepared_folder, "not prepared", "the official files alone", prepare)]
    elif not fetched and required:
        findings = [Finding(source.prepared_folder or source.folder, "missing", "nothing there", fetch)]
    return Checked(source, tuple(findings), absent=not (fetched or made))


def _any(folder: Path, files: Iterable[File]) -> bool:
    return any((folder / file.name).exists() for file in files)


def _faults(folder: Path, below: str, files: Iterable[File], remedy: str) -> list[Finding]:
    found = ((file, fault(folder / below / file.name, file)) for file in files if not file.document)
    return [Finding(f"{below}/{file.name}", *wrong, remedy) for file, wrong in found if wrong]


def fault(path: Path, file: File) -> tuple[str, str] | None:
    """What is wrong with the file at ``path``, which should be ``file``, in a word and in full; None: nothing is."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe, from which nothing may ever come
        return "unreadable", "not a file"
    try:
        with path.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
            if file.sha256 == sha256:
                return None
            stream.seek(0)
            lines = sum(1 for _ in stream)
    except (FileNotFoundError, NotADirectoryError):
        return "missing", "not there"
    except OSError as error:
        return "unreadable", str(error.strerror)
    if not file.sha256 and lines == file.lines:
        return None
    if not lines:
        return "empty", "0 rows"
    for source in data_sources():
        for folder, listed in ((source.folder, source.files), (source.prepared_folder, source.prepared)):
            if name := next((one.name for one in listed if one.sha256 == sha256), None):
                return "swapped", f"it is {folder}/{name}"
    if lines != file.lines:
        return "corrupt", f"{lines} lines, {file.lines} expected"
    if hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest() == file.sha256:
        return "converted", "the right text with Windows line ends"
    return "changed", f"{lines} lines as expected, but other text"
