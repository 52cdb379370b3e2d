"""What data there is: addresses, checksums, licences. The facts stand in sources.toml; this reads them."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from isotrope.errors import UserError, nearest

REQUIRED = ("sts", "transfer")  # groups without which the papers' tables cannot be made
BESIDES = ("retrieval", "words")
GROUPS = (*REQUIRED, *BESIDES, "corpus")  # the corpus is large, and comes only where it is asked for


@dataclass(frozen=True, slots=True)
class File:
    """A file as it should be; size and sha256 are None where nobody has seen the whole of it: its lines count."""

    name: str
    lines: int  # "\n" ends a line; an unfinished last one counts
    size: int | None = None  # bytes
    sha256: str | None = None
    at: str | None = None  # where its origin has another name: below the address, or the official file's

    @property
    def document(self) -> bool:
        """Whether it is a licence or a read-me, without which the data can be used."""
        return any(word in self.name.lower() for word in ("license", "readme"))


@dataclass(frozen=True, slots=True)
class DataSource:
    """A data set: what it is, whose, where it comes from, its files below the data folder.

    `address` ends in a slash and holds the files as they are; `archives` are the official downloads, whose members
    they are. Where there is a `recipe`, `isotrope data prepare` makes the `prepared` files from them.
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
    note: str | None = None  # what to know where a file of it is not as it should be

    @property
    def size(self) -> int | None:
        """Bytes to download; None where that is not known."""
        sizes = [file.size for file in self.files]
        return None if None in sizes else sum(size or 0 for size in sizes)

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
    text = (files("isotrope.datasets") / "sources.toml").read_text(encoding="utf-8")
    return tuple(_source(record) for record in tomllib.loads(text)["source"])


def _source(record: dict[str, Any]) -> DataSource:
    listed = {key: tuple(File(**file) for file in record.get(key, ())) for key in ("files", "prepared")}
    return DataSource(**{**record, **listed, "archives": tuple(record.get("archives", ()))})


def choose(names: Iterable[str] = ()) -> tuple[DataSource, ...]:
    """Sources by their names, or those of a group, in any case; none named: all but the corpus; "all": all.

    Raises UserError for an unknown name.
    """
    wanted = [name.strip().lower() for name in names] or [*REQUIRED, *BESIDES]
    known = {source.name.lower() for source in data_sources()} | {*GROUPS, "all"}
    remedy = f"choose from {', '.join((*GROUPS, *(source.name for source in data_sources())))} or all"
    for name in wanted:
        if name not in known:
            raise UserError(f"no data set {name!r}", nearest(name, sorted(known)) + remedy)
    return tuple(s for s in data_sources() if "all" in wanted or s.name.lower() in wanted or s.group in wanted)
