"""Files of other machines, by their URL: s3://, gs://, hf://, https://, and whatever else fsspec
knows.

They are read in blocks at any place, without a copy, and written whole. Credentials and addresses
are fsspec's business: the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …) or its configuration
files.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from isotrope.errors import UserError, one_of

Returned = TypeVar("Returned")

BLOCK_BYTES = 1 << 23  # bytes asked for at once, and the only ones in memory
WAITS = (1.0, 2.0, 4.0)  # seconds before a block that did not come is asked for again
STALLED = 30.0  # seconds without a byte: the server counts as lost
BUSY = (429, 503)  # a server's statuses for "ask later"
USUAL = ("s3", "gs", "hf", "https", "http", "memory")
_LATER = "check the connection, or wait a while, then run the same command again"
EXTRAS = {"s3": "s3", "s3a": "s3"}  # schemes whose package comes with an extra of isotrope
# What shows that a file has changed: each kind of store tells some of these, or none.
_TELLING = (
    "ETag",
    "etag",
    "VersionId",
    "generation",
    "md5Hash",
    "blob_id",
    "Last-Modified",
    "LastModified",
)
_VERSIONS = (*_TELLING, "mtime", "created")


def is_url(name: object) -> bool:
    """Whether a name is a URL, such as ``s3://bucket/lines.jsonl``, and no path."""
    return isinstance(name, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", name) is not None


def lies_within(name: str | Path, folder: str | Path) -> bool:
    """Whether a path or URL is that of a folder, or lies below it."""
    if is_url(name) or is_url(folder):
        return f"{name}/".startswith(f"{folder}".rstrip("/") + "/")
    return Path(name).resolve().is_relative_to(Path(folder).resolve())


def without_secrets(url: str) -> str:
    """A URL as it may be shown and kept: without a password, and without a web address's ``?…``,
    which may sign it.
    """
    url = re.sub(r"://[^/@]*@", "://", url)
    return url.partition("?")[0] if url.startswith(("http://", "https://")) else url


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file behind a URL. It has what readers of text need of a `Path`."""

    url: str  # its whole address
    size: int  # in bytes
    # what its store tells of its state; empty where it tells nothing
    version: tuple[tuple[str, str], ...] = ()
    # its path within the folder that was named; "" where the file itself was named
    inside: str = ""

    @classmethod
    def of(cls, url: str, info: dict[str, Any], inside: str = "") -> "RemoteFile":
        """A file as fsspec describes it."""
        if info.get("size") is None:
            raise UserError(
                f"{without_secrets(url)} does not tell its size", "copy it to this machine first"
            )
        return cls(
            url,
            int(info["size"]),
            tuple((key, str(info[key])) for key in _VERSIONS if info.get(key)),
            inside,
        )

    def __str__(self) -> str:
        return without_secrets(self.url)

    @property
    def name(self) -> str:
        """Without its folder."""
        return str(self).rpartition("/")[2]

    def open(self) -> Any:
        """Its bytes, as a file. A block that does not come is asked for again, after `WAITS`."""
        options: dict[str, Any] = {"block_size": BLOCK_BYTES, "cache_type": "readahead"}
        # asks for parts
        options |= {"size": self.size} if self.url.startswith(("http://", "https://")) else {}
        file = _ask(self.url, lambda system, path: system.open(path, "rb", **options))
        if hasattr(file, "cache"):  # not of what is in memory
            fetch = file.cache.fetcher

            def block(begin: int, end: int) -> bytes:
                found = bytes(fetch(begin, end))
                if len(found) != end - begin:
                    raise OSError(f"{len(found):,} bytes came instead of {end - begin:,}")
                return found

            file.cache.fetcher = lambda begin, end: _ask(
                self.url, lambda *_: block(begin, end), lost=True
            )
        return file

    def now(self) -> "RemoteFile":
        """The same file, with the size and the version that it has now."""
        return RemoteFile.of(self.url, _ask(self.url, lambda system, path: system.info(path)))


def remote_files(url: str) -> list[RemoteFile]:
    """The files that a URL names, sorted: a file, all in a folder and below it, or all that fit
    where it has a ``*``.

    UserError for an unknown scheme, a missing package, no such file, no permission, no connection.
    """

    def look(system: Any, path: str) -> list[RemoteFile]:
        # a folder, not asked for as a file
        is_page = path.startswith(("http://", "https://")) and path.endswith("/")
        if "*" not in path and not is_page and (info := system.info(path))["type"] == "file":
            return [RemoteFile.of(url, info)]
        root = "" if "*" in path else path.rstrip("/") + "/"
        found = (system.find if root else system.glob)(path, detail=True)
        files, names = [], [name for name, info in found.items() if info["type"] == "file"]
        for name in sorted(names, key=lambda name: name.split("/")):
            told = found[name] if found[name].get("size") is not None else system.info(name)
            files.append(
                RemoteFile.of(
                    system.unstrip_protocol(name), told, name.removeprefix(root) if root else ""
                )
            )
        if not files:
            raise FileNotFoundError(url)
        return files

    return _ask(url, look)


def remote_names(url: str) -> set[str]:
    """The names of all files in a folder and below it; none if there is no such folder."""

    def look(system: Any, path: str) -> set[str]:
        try:
            return {name.removeprefix(path.rstrip("/") + "/") for name in system.find(path)}
        except FileNotFoundError:
            return set()

    return _ask(url, look)


def upload(path: Path, url: str) -> None:
    """Put a file where a URL says, in place of an older one, and look whether all of it is there."""

    def put(system: Any, place: str) -> None:
        system.put_file(str(path), place)
        system.invalidate_cache()
        if (found := system.info(place)["size"]) != path.stat().st_size:
            raise OSError(f"{found:,} of {path.stat().st_size:,} bytes are there")

    _ask(url, put, "written", lost=True)


def _ask(
    url: str, work: Callable[[Any, str], Returned], done: str = "read", lost: bool = False
) -> Returned:
    """What ``work`` returns, which takes fsspec's system for a URL and the path there.

    A busy server and, if ``lost``, a lost connection are tried again, after `WAITS`. What goes
    wrong in the end is a UserError; the stores' libraries have no common errors.
    """
    waits = iter(WAITS)
    while True:
        try:
            return work(*_opened(url))
        except UserError:
            raise
        except Exception as raised:
            error = _cause(raised)
            status, remedy = getattr(error, "status", 0), _remedy(error, url.partition("://")[0])
            wait = next(waits, None) if remedy == _LATER and (lost or status in BUSY) else None
            if wait is None:
                shown = without_secrets(url)
                why = (
                    f"HTTP {status}"
                    if status
                    else str(error).replace(url, shown) or type(error).__name__
                )
                raise UserError(f"{shown} cannot be {done} ({why})", remedy) from raised
        time.sleep(wait)


def _opened(url: str) -> tuple[Any, str]:
    """Fsspec's system for a URL, and the path there. What it remembers of folders is forgotten
    first.
    """
    import fsspec

    scheme, options = url.partition("://")[0], dict[str, Any]()
    if scheme not in fsspec.available_protocols():
        raise UserError(
            f"{without_secrets(url)} has the unknown scheme {scheme!r}", one_of(scheme, USUAL)
        )
    if scheme in ("http", "https"):
        import aiohttp  # which waits five minutes for a whole answer, however large

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=STALLED, sock_read=STALLED)
        options = {
            "client_kwargs": {
                "timeout": timeout,
                **fsspec.config.conf.get(scheme, {}).get("client_kwargs", {}),
            }
        }
    system, path = fsspec.core.url_to_fs(url, **options)
    system.invalidate_cache()
    return system, path


def _cause(error: BaseException) -> BaseException:
    """What is behind an error: for the web, fsspec says "not found" of every one."""
    cause = error.__cause__
    behind = isinstance(error, FileNotFoundError) and (
        hasattr(cause, "status") or isinstance(cause, OSError)
    )
    return cause if behind and cause else error


def _remedy(error: BaseException, scheme: str) -> str:
    status, kind = getattr(error, "status", 0), type(error).__name__
    if isinstance(error, ImportError):
        return (
            f"pip install 'isotrope[{EXTRAS[scheme]}]'"
            if scheme in EXTRAS
            else "install its package"
        )
    if isinstance(error, FileNotFoundError) or status == 404:
        return "check the address"
    lasting = status in range(400, 500) and status not in BUSY
    if (
        lasting
        or isinstance(error, PermissionError)
        or kind.endswith(("CredentialsError", "ProfileNotFound"))
    ):
        return "check your credentials for it"
    return _LATER
