"""A web server on this machine that behaves as the web does: resumes, redirects, breaks off,
refuses.
"""

import hashlib
import io
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from fsspec import AbstractFileSystem, filesystem

import isotrope.benchmark_data.sources as known
from isotrope.benchmark_data.sources import DataSource, File

TEXT = "".join(f"sentence {i} of a file\n" for i in range(9000)).encode()
HOME = "the makers' page"


def file_of(content: bytes, name: str = "a.txt") -> File:
    return File(name, content.count(b"\n"), len(content), hashlib.sha256(content).hexdigest())


def zipped(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def tarred(members: dict[str, bytes], kind: bytes = tarfile.REGTYPE, linkname: str = "") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = (
                kind,
                linkname,
                len(content) if kind == tarfile.REGTYPE else 0,
            )
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


@dataclass
class Web:
    """What the server gives: path -> bytes, a status, or the address of a redirect; and what it was
    asked.
    """

    base: str = ""
    pages: dict[str, bytes | int | str] = field(default_factory=dict)
    ranges: bool = True  # whether it can go on from a byte
    cut: int | None = None  # the connection ends after so many bytes of an answer
    pause: float = 0.0  # seconds before each hundred bytes of an answer
    pause_before: float = 0.0  # seconds before an answer
    headers: dict[str, str] = field(default_factory=dict)  # of a refusal
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path, Range


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    web = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            page = web.pages.get(self.path, 404)
            if isinstance(page, bytes):
                self.head(
                    200, {"Content-Length": str(len(page)), "ETag": hashlib.md5(page).hexdigest()}
                )
            else:
                self.head(page if isinstance(page, int) else 404, web.headers)

        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            web.asked.append((self.path, wanted))
            page = web.pages.get(self.path, 404)
            time.sleep(web.pause_before)
            if isinstance(page, int):
                self.head(page, web.headers)
            elif isinstance(page, str):
                self.head(302, {"Location": page})
            else:
                begin, last = (
                    (wanted or "bytes=0-").removeprefix("bytes=").split("-")
                    if web.ranges
                    else ("0", "")
                )
                self.give(page, int(begin), int(last or len(page)) + 1)

        def head(self, status: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def give(self, page: bytes, begin: int, end: int) -> None:
            if begin >= len(page) > 0:
                return self.send_error(416)
            part = page[begin:end]
            of_whole = {"Content-Range": f"bytes {begin}-{begin + len(part) - 1}/{len(page)}"}
            whole = len(part) == len(page)
            self.head(
                200 if whole else 206,
                {"Content-Length": str(len(part)), **({} if whole else of_whole)},
            )
            sent, step = part[: web.cut], 100 if web.pause else len(part) or 1
            for start in range(0, len(sent), step):
                time.sleep(web.pause)
                with suppress(ConnectionError):
                    self.wfile.write(sent[start : start + step])

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """A client that goes away says nothing on the tests' standard error."""

    server = Server(("127.0.0.1", 0), Handler)
    web.base = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield web
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def memory() -> Iterator[AbstractFileSystem]:
    """The store behind memory://, empty."""
    system = filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


@pytest.fixture
def source(web: Web, monkeypatch: pytest.MonkeyPatch) -> DataSource:
    """A data set of two files, which the web has one by one and in an archive; the only one that is
    known.
    """
    second = b"one\ntwo\n"
    web.pages |= {
        "/at/a.txt": TEXT,
        "/at/b.txt": second,
        "/all.zip": zipped({"in/a.txt": TEXT, "in/b.txt": second}),
    }
    one = DataSource(
        "One",
        "transfer",
        "a test",
        "9002 lines",
        "none",
        HOME,
        f"{web.base}/at/",
        "one",
        (file_of(TEXT), file_of(second, "b.txt")),
        (f"{web.base}/all.zip",),
    )
    monkeypatch.setattr(known, "data_sources", lambda: (one,))
    return one
