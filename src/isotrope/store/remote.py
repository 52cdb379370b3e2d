"""Files of other machines, by their URL: s3://, gs://, hf://, https://, and whatever else fsspec knows.

They are read in blocks, in order or at any place, and no copy is kept. They are written whole. Credentials and
addresses are fsspec's business: the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …) or its configuration files.
"""

import io
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from isotrope.errors import UserError, one_of

Returned = TypeVar("Returned")

BLOCK_BYTES = 1 << 23  # bytes asked for at once, and the only ones in memory
WAITS = (1.0, 2.0, 4.0)  # seconds before a block that did not come is asked for again
STALLED = 30.0  # seconds without a byte: the server counts as lost
BUSY, LONGEST_WAIT = (429, 503), 60.0  # a server's statuses for "ask later"; the most seconds that it may ask for
USUAL = ("s3", "gs", "hf", "https", "http", "memory")
EXTRAS = {"s3": "s3", "s3a": "s3"}  # schemes whose package comes with an extra of isotrope
# What shows that a file has changed: each kind of store tells some of these, or none.
_VERSIONS = (
    "ETag", "etag", "VersionId", "generation", "md5Hash", "blob_id", "Last-Modified", "LastModified", "mtime",
    "created",
)  # fmt: skip


def is_url(name: object) -> bool:
    """Whether a name is a URL, such as ``s3://bucket/lines.jsonl``, and no path."""
    return isinstance(name, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", name) is not None


def lies_within(name: str | Path, folder: str | Path) -> bool:
    """Whether a path or URL is that of a folder, or lies below it."""
    if is_url(name) or is_url(folder):
        return f"{name}/".startswith(f"{folder}".rstrip("/") + "/")
    return Path(name).resolve().is_relative_to(Path(folder).resolve())


def without_secrets(url: str) -> str:
    """A URL as it may be shown and kept: without a password, and without a web address's ``?…``, which may sign it."""
    url = re.sub(r"://[^/@]*@", "://", url)
    return url.partition("?")[0] if url.startswith(("http://", "https://")) else url


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file behind a URL. It has what readers of text need of a `Path`."""

    url: str  # its whole address
    size: int  # in bytes
    version: tuple[tuple[str, str], ...] = ()  # what its store tells of its state; empty where it tells nothing
    inside: str = ""  # its path within the folder that was named; "" where the file itself was named

    @classmethod
    def of(cls, url: str, info: dict[str, Any], inside: str = "") -> "RemoteFile":
        """A file as fsspec describes it."""
        if info.get("size") is None:
            raise UserError(f"{without_secrets(url)} does not tell its size", "copy it to this machine first")
        return cls(url, int(info["size"]), tuple((key, str(info[key])) for key in _VERSIONS if info.get(key)), inside)

    def __str__(self) -> str:
        return without_secrets(self.url)

    @property
    def name(self) -> str:
        """Without its folder."""
        return str(self).rpartition("/")[2]

    def open(self) -> io.BufferedReader:
        """Its bytes. A block that does not come is asked for again, after `WAITS`."""
        return io.BufferedReader(_Blocks(self), BLOCK_BYTES)

    def now(self) -> "RemoteFile":
        """The same file, with the size and the version that it has now."""
        with _clear_errors(self.url):
            system, path = _opened(self.url)
            return RemoteFile.of(self.url, _with_patience(lambda: system.info(path), lost=False))


def remote_files(url: str) -> list[RemoteFile]:
    """The files that a URL names: a file, all in a folder and below it, or all that fit where it has a ``*``.

    They are sorted as the files of a folder of this machine are.

    Raises:
        UserError: an unknown scheme, a missing package, no such file, no permission, no connection.
    """
    with _clear_errors(url):
        system, path = _opened(url)
        is_page = path.startswith(("http://", "https://")) and path.endswith("/")  # a folder, not asked for as a file
        if "*" not in path and not is_page:
            info = _with_patience(lambda: system.info(path), lost=False)
            if info["type"] == "file":
                return [RemoteFile.of(url, info)]
        root = "" if "*" in path else path.rstrip("/") + "/"
        look = system.find if root else system.glob
        found = _with_patience(lambda: look(path, detail=True), lost=False)
        files = []
        for info in sorted(found.values(), key=lambda info: info["name"].split("/")):
            if info["type"] == "file":
                told = info if info.get("size") is not None else system.info(info["name"])
                inside = info["name"].removeprefix(root) if root else ""
                files.append(RemoteFile.of(system.unstrip_protocol(info["name"]), told, inside))
        if not files:
            raise FileNotFoundError(url)
        return files


def remote_names(url: str) -> set[str]:
    """The names of all files in a folder and below it; none if there is no such folder."""
    with _clear_errors(url):
        system, path = _opened(url)
        try:
            return {name.removeprefix(path.rstrip("/") + "/") for name in system.find(path)}
        except FileNotFoundError:
            return set()


def upload(path: Path, url: str) -> None:
    """Put a file where a URL says, in place of an older one, and look whether all of it is there."""

    def put() -> None:
        system, place = _opened(url)
        system.put_file(str(path), place)
        system.invalidate_cache()
        if (found := system.info(place)["size"]) != path.stat().st_size:
            raise OSError(f"{found:,} of {path.stat().st_size:,} bytes are there")

    with _clear_errors(url, "written"):
        _with_patience(put)


class _Blocks(io.RawIOBase):
    """A file's bytes at any place, for a buffer that asks for `BLOCK_BYTES` at once."""

    def __init__(self, file: RemoteFile) -> None:
        self._file, self._at = file, 0
        with _clear_errors(file.url):
            system, path = _opened(file.url)
            self._stream = system.open(path, "rb", block_size=BLOCK_BYTES, cache_type="none")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        wanted = max(0, min(len(buffer), BLOCK_BYTES, self._file.size - self._at))

        def ask() -> bytes:
            self._stream.seek(self._at)
            block = bytes(self._stream.read(wanted))
            if len(block) != wanted:
                raise OSError(f"{len(block):,} bytes came instead of {wanted:,}")
            return block

        with _clear_errors(self._file.url):
            buffer[:wanted] = _with_patience(ask) if wanted else b""
        self._at += wanted
        return wanted


def _opened(url: str) -> tuple[Any, str]:
    """Fsspec's system for a URL, and the path there. What it remembers of folders is forgotten first."""
    import fsspec

    scheme, options = url.partition("://")[0], dict[str, Any]()
    if scheme not in fsspec.available_protocols():
        raise UserError(f"{without_secrets(url)} has the unknown scheme {scheme!r}", one_of(scheme, USUAL))
    if scheme in ("http", "https"):
        import aiohttp  # whose own end of waiting is five minutes for a whole answer

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=STALLED, sock_read=STALLED)
        own = {"timeout": timeout, "trust_env": True}  # proxies
        options = {"client_kwargs": {**own, **fsspec.config.conf.get(scheme, {}).get("client_kwargs", {})}}
    system, path = fsspec.core.url_to_fs(url, **options)
    system.invalidate_cache()
    return system, path


def _with_patience(work: Callable[[], Returned], lost: bool = True) -> Returned:
    """What ``work`` returns. A busy server and, if ``lost``, a lost connection are tried again, after `WAITS`."""
    for wait in WAITS:
        try:
            return work()
        except Exception as raised:
            error = _cause(raised)
            busy = getattr(error, "status", 0) in BUSY
            if not busy and (not lost or _refused(error)):
                raise
            told = (getattr(error, "headers", None) or {}).get("Retry-After", "")
        time.sleep(max(wait, min(float(told), LONGEST_WAIT)) if busy and told.isdecimal() else wait)
    return work()


@contextmanager
def _clear_errors(url: str, done: str = "read") -> Iterator[None]:
    """Turns what can go wrong into a UserError. The stores' libraries have no common errors."""
    shown = without_secrets(url)
    try:
        yield
    except UserError:
        raise
    except Exception as raised:
        error = _cause(raised)
        status = getattr(error, "status", None)
        why = f"HTTP {status}" if status else " ".join(str(error).replace(url, shown).split()) or type(error).__name__
        if isinstance(error, TimeoutError):
            why = f"nothing came for {STALLED:.0f} seconds"
        problem, remedy = f"cannot be {done} ({why})", "check the connection, then run the same command again"
        if isinstance(error, ImportError):
            extra = EXTRAS.get(url.partition("://")[0])
            problem = f"needs a package that is not installed ({why})"
            remedy = f"pip install 'isotrope[{extra}]'" if extra else "install it"
        elif isinstance(error, FileNotFoundError) or status == 404:
            problem, remedy = "does not exist", "check the address"
        elif _refused(error):
            problem, remedy = f"may not be {done} ({why})", "check your credentials for it"
        elif status in BUSY:
            remedy = "the server is asked too often: wait a while, then run the same command again"
        raise UserError(f"{shown} {problem}", remedy) from raised


def _cause(error: BaseException) -> BaseException:
    """What is behind an error: for the web, fsspec says "not found" of every one."""
    cause = error.__cause__
    behind = isinstance(error, FileNotFoundError) and (hasattr(cause, "status") or isinstance(cause, OSError))
    return cause if behind and cause else error


def _refused(error: BaseException) -> bool:
    """Whether to ask again would give the same."""
    no_key = type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound")
    status = getattr(error, "status", 0)
    lasting = status in range(400, 500) and status not in BUSY
    return no_key or lasting or isinstance(error, FileNotFoundError | PermissionError)
