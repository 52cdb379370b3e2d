"""Files of other machines, by their URL: s3://, gs://, hf://, https://, and all that fsspec knows.

They are read in blocks at any place, without a copy, and written whole. Credentials and addresses
are fsspec's business: the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …) or its configuration
files.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from isotrope.errors import UserError, one_of

Returned = TypeVar("Returned")

BLOCK_BYTES = 1 << 23  # bytes asked for at once, and the only ones in memory
_WEB = ("http://", "https://")
WAITS = (1.0, 2.0, 4.0)  # seconds before a web server is asked again
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
        folder_url = f"{folder}".rstrip("/") + "/"
        return f"{name}/".startswith(folder_url)
    path = Path(name).resolve()
    return path.is_relative_to(Path(folder).resolve())


def without_secrets(url: str) -> str:
    """A URL as it may be shown and kept.

    That is without a password, and without a web address's ``?…``, which may sign it.
    """
    url = re.sub(r"://[^/@]*@", "://", url)
    if url.startswith(_WEB):
        url = url.partition("?")[0]
    return url


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file behind a URL. It has what readers of text need of a `Path`.

    Attributes:
        url: its whole address.
        size: in bytes.
        version: what its store tells of its state; empty if it tells nothing.
        inside: its path within the folder that was named; "" if the file itself was named.
    """

    url: str
    size: int
    version: tuple[tuple[str, str], ...] = ()
    inside: str = ""

    @classmethod
    def of(cls, url: str, info: dict[str, Any], inside: str = "") -> "RemoteFile":
        """A file as fsspec describes it."""
        if info.get("size") is None:
            problem = f"{without_secrets(url)} does not tell its size"
            raise UserError(problem, "copy it to this machine first", "unknown-size")
        version = [(key, str(info[key])) for key in _VERSIONS if info.get(key)]
        size = int(info["size"])
        return cls(url, size, tuple(version), inside)

    def __str__(self) -> str:
        return without_secrets(self.url)

    @property
    def name(self) -> str:
        """Without its folder."""
        return str(self).rpartition("/")[2]

    def open(self) -> Any:
        """Its bytes, as a file. What goes wrong in reading a block is a UserError too."""
        options: dict[str, Any] = {"block_size": BLOCK_BYTES, "cache_type": "readahead"}
        if self.url.startswith(_WEB):
            options["size"] = self.size  # so that parts are asked for
        file = _ask(self.url, lambda system, path: system.open(path, "rb", **options))
        if not hasattr(file, "cache"):  # it is in memory
            return file

        fetch = file.cache.fetcher

        def fetch_block(begin: int, end: int) -> bytes:
            block = bytes(fetch(begin, end))
            count = end - begin
            if len(block) != count:
                raise OSError(f"{len(block):,} bytes came instead of {count:,}")
            return block

        def ask_for_block(begin: int, end: int) -> bytes:
            return _ask(self.url, lambda system, path: fetch_block(begin, end), lost=True)

        file.cache.fetcher = ask_for_block
        return file

    def now(self) -> "RemoteFile":
        """The same file, with the size and the version that it has now."""
        info = _ask(self.url, lambda system, path: system.info(path))
        return RemoteFile.of(self.url, info)


def remote_files(url: str) -> list[RemoteFile]:
    """The files that a URL names, sorted.

    They are a file, all in a folder and below it, or all that fit if it has a ``*``.

    Raises:
        UserError: an unknown scheme, a missing package, no such file, no permission, no connection.
    """
    return _ask(url, partial(_list_files, url))


def _list_files(url: str, system: Any, path: str) -> list[RemoteFile]:
    has_star = "*" in path
    is_folder_of_the_web = path.startswith(_WEB) and path.endswith("/")
    if not has_star and not is_folder_of_the_web:
        info = system.info(path)
        if info["type"] == "file":
            return [RemoteFile.of(url, info)]

    if has_star:
        entries = system.glob(path, detail=True)
        folder = ""
    else:
        entries = system.find(path, detail=True)
        folder = path.rstrip("/") + "/"

    files = []
    for name in sorted(entries, key=lambda name: name.split("/")):
        info = entries[name]
        if info["type"] != "file":
            continue
        if info.get("size") is None:
            info = system.info(name)
        inside = name.removeprefix(folder) if folder else ""
        file_url = system.unstrip_protocol(name)
        files.append(RemoteFile.of(file_url, info, inside))
    if not files:
        raise FileNotFoundError(url)
    return files


def remote_names(url: str) -> set[str]:
    """The names of all files in a folder and below it; none if there is no such folder."""

    def look(system: Any, path: str) -> set[str]:
        folder = path.rstrip("/") + "/"
        try:
            return {name.removeprefix(folder) for name in system.find(path)}
        except FileNotFoundError:
            return set()

    return _ask(url, look)


def upload(path: Path, url: str) -> None:
    """Put a file where a URL says, in place of an older one, and look whether all of it is
    there.
    """

    def put(system: Any, place: str) -> None:
        system.put_file(str(path), place)
        system.invalidate_cache()
        uploaded = system.info(place)["size"]
        size = path.stat().st_size
        if uploaded != size:
            raise OSError(f"{uploaded:,} of {size:,} bytes are there")

    _ask(url, put, "written")


def _ask(
    url: str, work: Callable[[Any, str], Returned], done: str = "read", lost: bool = False
) -> Returned:
    """What ``work`` returns, which takes fsspec's system for a URL and the path there.

    The libraries of the stores try again by themselves, but fsspec's web client does not. So a busy
    web server and, if ``lost``, a lost connection to one are tried again here, after `WAITS`. What
    goes wrong in the end is a UserError; the libraries have no common errors.
    """
    waits = iter(WAITS if url.startswith(_WEB) else ())
    while True:
        try:
            return work(*_open_system(url))
        except UserError:
            raise
        except Exception as raised:
            error = _cause(raised)
            is_busy = getattr(error, "status", 0) in BUSY
            may_pass = is_busy or (lost and _remedy(error, url) == _LATER)
            wait = next(waits, None) if may_pass else None
            if wait is None:
                raise _refusal(url, error, done) from raised
        time.sleep(wait)


def _open_system(url: str) -> tuple[Any, str]:
    """The system of fsspec for a URL, and the path there. What it remembers of folders is
    dropped.
    """
    import fsspec

    scheme = url.partition("://")[0]
    if scheme not in fsspec.available_protocols():
        problem = f"{without_secrets(url)} has the unknown scheme {scheme!r}"
        raise UserError(problem, one_of(scheme, USUAL), "unknown-scheme")
    options: dict[str, Any] = {}
    if url.startswith(_WEB):
        import aiohttp  # which waits five minutes for a whole answer, however large

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=STALLED, sock_read=STALLED)
        configured = fsspec.config.conf.get(scheme, {})
        settings = configured.get("client_kwargs", {})
        options["client_kwargs"] = {"timeout": timeout, **settings}
    system, path = fsspec.core.url_to_fs(url, **options)
    system.invalidate_cache()
    return system, path


def _cause(error: BaseException) -> BaseException:
    """The error behind "not found", which fsspec says of every error of the web."""
    cause = error.__cause__
    if not isinstance(error, FileNotFoundError) or cause is None:
        return error
    if hasattr(cause, "status") or isinstance(cause, OSError):
        return cause
    return error


def _refusal(url: str, error: BaseException, done: str) -> UserError:
    public_url = without_secrets(url)
    status = getattr(error, "status", 0)
    kind = type(error).__name__
    words = str(error).replace(url, public_url) or kind
    reason = f"HTTP {status}" if status else words
    problem = f"{public_url} cannot be {done} ({reason})"
    return UserError(problem, _remedy(error, url), f"url-cannot-be-{done}")


def _remedy(error: BaseException, url: str) -> str:
    status = getattr(error, "status", 0)
    if isinstance(error, ImportError):
        extra = EXTRAS.get(url.partition("://")[0])
        return f"pip install 'isotrope[{extra}]'" if extra else "install its package"
    if isinstance(error, FileNotFoundError) or status == 404:
        return "check the address"

    is_lasting = 400 <= status < 500 and status not in BUSY
    kind = type(error).__name__
    lacks_key = kind.endswith(("CredentialsError", "ProfileNotFound"))
    if is_lasting or lacks_key or isinstance(error, PermissionError):
        return "check your credentials for it"
    return _LATER
