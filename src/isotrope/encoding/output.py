"""Where vectors are written: parts in a folder or behind a URL, in the end one file if wanted.

Each part appears whole or not at all. The checksum with which it was written is noted, first in a
log and in the end in the manifest. A part without a checksum of its own is encoded again.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow.parquet as pq
import xxhash

from isotrope.encoding.manifest import IDENTITY, MANIFEST, METADATA, Manifest
from isotrope.encoding.rows import TEXT
from isotrope.encoding.shards import EMBEDDING, WRITE_OPTIONS, ShardTask, WrittenPart, part_name
from isotrope.errors import UserError
from isotrope.store.cache import cache_folder
from isotrope.store.files import (
    Record,
    RecordLog,
    check_place,
    claim,
    clear_drafts,
    draft_path,
    file_checksum,
    is_empty_file,
    move,
    new_file,
    read_record,
    remove,
    stream_checksum,
    write_json,
)
from isotrope.store.remote import is_url, remote_files, remote_names, upload, without_secrets

KIND = "folder of vectors"  # of the mark
SUFFIX = ".parquet"
PART_LOG = ".parts.jsonl"
ROWS = "_rows.parquet"
# Files that say themselves which work they belong to.
KEYED_FILES = ("part-*.parquet", PART_LOG, MANIFEST, ROWS)


@dataclass(frozen=True, slots=True)
class Destination:
    """What the user named."""

    shown: str  # in messages
    # Of the job, and of the parts. If these go to a URL, it is in the cache of this machine.
    folder: Path
    file: Path | None = None  # the one file that is made of the parts
    url: str | None = None  # of the folder of the parts
    is_temporary: bool = False  # its vectors go into memory

    def check(self, keep: Sequence[str], restart: bool) -> None:
        """Check that the place is ours or new, and that it can hold the columns to keep."""
        reserved = {TEXT, EMBEDDING}.intersection(keep)
        if reserved:
            problem = f"keep = {min(reserved)!r}: the output has a column of that name"
            raise UserError(problem, "leave it out, or rename it", "reserved-column")
        check_place(self.folder, KIND)
        if self.url:
            self._check_url(self.url, restart)
        elif is_empty_file(self.folder / IDENTITY):  # a loss of power may leave it so
            self._restore_identity()

    def _check_url(self, url: str, restart: bool) -> None:
        """A finished output says what it is, whichever machine made it. Other files are refused."""
        remedy = "delete them to start again, or write to another folder"
        names = remote_names(url)
        if MANIFEST in names and not restart:
            self._copy_manifest(url)
            if not self._restore_identity():
                problem = f"{self.shown} holds a {MANIFEST} that isotrope did not write"
                raise UserError(problem, remedy, "foreign-manifest")
        elif names and (restart or not (self.folder / IDENTITY).exists()):
            problem = f"{self.shown} holds files, and their work was not begun here"
            raise UserError(problem, remedy, "folder-is-not-ours")

    def _copy_manifest(self, url: str) -> None:
        claim(self.folder, KIND)
        with (
            remote_files(f"{url}/{MANIFEST}")[0].open() as source,
            new_file(self.folder / MANIFEST) as copy,
        ):
            copy.write(source.read())

    def _restore_identity(self) -> bool:
        """Write the identity that the manifest holds; False if there is no manifest that is
        whole.
        """
        try:
            record = read_record(self.folder / MANIFEST, {"made_from": dict, "parts": dict})
        except UserError:
            return False
        write_json(self.folder / IDENTITY, record["made_from"])
        return True

    def dtype_begun(self) -> str | None:
        """The dtype of the work that was begun here; None if there is none."""
        with suppress(UserError):
            return read_record(self.folder / IDENTITY).get("dtype")
        return None

    @contextmanager
    def tidied(self) -> Iterator[None]:
        """At the end, remove what only unfinished work needs. If no part is whole, nothing
        stays.
        """
        try:
            yield
        finally:
            is_begun = bool(_part_names(self.folder, self.url))
            is_finished = (self.folder / MANIFEST).exists()
            needless = []
            if is_finished or not is_begun:
                needless += [ROWS, PART_LOG]
            if not is_begun:
                needless += [IDENTITY, MANIFEST]
            for name in needless:
                (self.folder / name).unlink(missing_ok=True)

    def task(self, draft: Path, dimension: int, batch_size: int, *, shared: bool) -> ShardTask:
        """What the shards need. Their rows move beside the parts, ``shared`` with other
        machines.
        """
        folder = self.folder.absolute()
        move(draft, folder / ROWS)
        rows = str(folder / ROWS)
        if self.url and shared:
            rows = f"{self.url}/{ROWS}"
            upload(folder / ROWS, rows)
        return ShardTask(rows, self.url or str(folder), dimension, batch_size)

    def publish(self, manifest: Manifest, *, changed: bool) -> Path | str:
        """Make the finished output of the parts -> its path, or its URL."""
        if self.url and (changed or MANIFEST not in remote_names(self.url)):
            upload(self.folder / MANIFEST, f"{self.url}/{MANIFEST}")
        if self.file is None:
            return self.url or self.folder

        _write_file(self.file, manifest, [self.folder / name for name in sorted(manifest.parts)])
        # At one stroke: a part that is missing would be encoded again.
        old_parts = draft_path(self.folder)
        move(self.folder, old_parts)
        remove(old_parts)
        return self.file


class PartFiles:
    """The parts of one output, with the checksums with which they were written."""

    def __init__(self, destination: Destination, key: str, manifest: Record | None) -> None:
        """``key`` is that of the identity: parts of another one do not count."""
        self._folder = destination.folder
        self._url = destination.url
        self._key = key
        self._log = RecordLog(self._folder / PART_LOG)
        self._checksums: dict[str, str] = {}
        for record in self._log.records:
            if record.get("key") == key:
                with suppress(KeyError, TypeError, ValueError):  # it is damaged
                    self._checksums[part_name(record["shard"])] = record["checksum"]
        if manifest and manifest["key"] == key:
            self._checksums |= manifest["parts"]

    def missing(self, sizes: Sequence[int]) -> list[int]:
        """The shards, of so many rows each, that have no whole part."""
        names = _part_names(self._folder, self._url)
        return [shard for shard in range(len(sizes)) if not self._is_whole(part_name(shard), names)]

    def _is_whole(self, name: str, names: set[str]) -> bool:
        checksum = self._checksums.get(name)
        return name in names and checksum is not None and checksum == self._checksum(name)

    def _checksum(self, name: str) -> str:
        if not self._url:
            return file_checksum(self._folder / name)
        with remote_files(f"{self._url}/{name}")[0].open() as file:
            return stream_checksum(file)

    def checksums_of(self, shards: int) -> dict[str, str]:
        """Name -> checksum of all parts, which are there."""
        names = [part_name(shard) for shard in range(shards)]
        return {name: self._checksums[name] for name in names}

    def add(self, part: WrittenPart) -> None:
        """Note a part that was just written."""
        self._log.add({"key": self._key, **asdict(part)})
        self._checksums[part.name] = part.checksum


def _part_names(folder: Path, url: str | None) -> set[str]:
    names = remote_names(url) if url else {path.name for path in folder.glob("part-*")}
    return {name for name in names if name.startswith("part-")}


def _write_file(path: Path, manifest: Manifest, parts: Sequence[Path]) -> None:
    """One file of all parts, with the manifest, so that a reader knows the model."""
    record = json.dumps(manifest.as_record())
    schema = pq.read_schema(parts[0]).with_metadata({METADATA: record})
    with new_file(path) as file, pq.ParquetWriter(file, schema, **WRITE_OPTIONS) as writer:
        for part in parts:
            table = pq.ParquetFile(part).read()
            writer.write_table(table, row_group_size=len(table))


def parse_destination(output: str | Path) -> Destination:
    """What ``output`` names: OUT.parquet (made in OUT.parquet.parts/), a folder, or its URL.

    UserError if it is something else.
    """
    if not str(output):
        raise UserError("output is empty", "name a .parquet file, or a folder", "empty-output")
    path = Path(output)
    is_existing_folder = path.is_dir() and path.suffix != SUFFIX
    ending = "" if str(output).endswith("/") or is_existing_folder else path.suffix
    if is_url(output):
        return _remote_destination(str(output).rstrip("/"), ending)

    if ending not in ("", SUFFIX):
        problem = f"output {path} has the unknown ending {ending!r}"
        remedy = f"end it in {SUFFIX}, or name a folder (with / at its end if its name has a dot)"
        raise UserError(problem, remedy, "unknown-ending")
    if ending and path.is_dir():
        remedy = "name a file, or put / at the end to write into the folder"
        raise UserError(f"output {path} is a folder", remedy, "output-is-a-folder")
    if not ending:
        return Destination(str(path), path)
    folder = path.with_name(path.name + ".parts")
    clear_drafts(folder.parent, folder.name)
    return Destination(str(folder), folder, file=path)


def _remote_destination(url: str, ending: str) -> Destination:
    shown_url = without_secrets(url)
    if shown_url.startswith(("http://", "https://")):
        problem = f"output {shown_url} is a web address, which cannot be written to"
        raise UserError(problem, "name an object store (s3://, …)", "read-only-url")
    if ending == SUFFIX:
        problem = f"output {shown_url} is a file: behind a URL only a folder grows safely"
        raise UserError(problem, "end it in /", "remote-file")
    folder = cache_folder("outputs", xxhash.xxh3_64_hexdigest(url.encode()))
    return Destination(shown_url, folder, url=url)
