"""A web server on this machine that behaves as the web does: resumes, redirects, breaks off, refuses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Web:
    """What the server gives: path -> bytes, a status, or the address of a redirect; and what it was asked."""

    base: str = ""
    pages: dict[str, bytes | int | str] = field(default_factory=dict)
    ranges: bool = True  # whether it can go on from a byte
    cut: int | None = None  # the connection ends after so many bytes of an answer
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path, Range


@contextmanager
def serving() -> Iterator[Web]:
    web = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            web.asked.append((self.path, wanted))
            page = web.pages.get(self.path, 404)
            if isinstance(page, int):
                self.send_error(page)
            elif isinstance(page, str):
                self.send_response(302)
                self.send_header("Location", page)
                self.end_headers()
            else:
                self.give(page, int(wanted[6:-1]) if wanted and web.ranges else 0)

        def give(self, page: bytes, begin: int) -> None:
            if begin >= len(page) > 0:
                return self.send_error(416)
            self.send_response(206 if begin else 200)
            self.send_header("Content-Length", str(len(page) - begin))
            if begin:
                self.send_header("Content-Range", f"bytes {begin}-{len(page) - 1}/{len(page)}")
            self.end_headers()
            self.wfile.write(page[begin:][: web.cut])

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.base = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
