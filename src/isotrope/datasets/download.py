"""One file from the web: resumed where it broke off, verified, and in its place only when it is whole and right."""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections.abc import Callable
from http.client import HTTPException, HTTPMessage, HTTPResponse, InvalidURL
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from isotrope.datasets.sources import File
from isotrope.datasets.verify import CHUNK, fault
from isotrope.errors import UserError
from isotrope.store.atomic import growing_file, move, part_path

TIMEOUT = 30.0  # seconds without a byte
WINDOW = 60.0  # seconds in which a server has to begin its answer, and again to send SLOWEST bytes a second
SLOWEST = 1000  # bytes a second
AGAIN = "run the command again: it goes on from there"

Tick = Callable[[int], None]  # bytes that have just arrived


def download(url: str, path: Path, file: File | None, home: str, tick: Tick = lambda count: None) -> None:
    """Download ``url`` to ``path``. The caller holds the folder.

    The bytes gather in a draft beside ``path``; a later call goes on from there. What came out wrong after that is
    fetched once more from the start.

    Args:
        url: http or https.
        path: where the file is to be; its folder is made when bytes arrive.
        file: what it should be; None: whoever opens it verifies it.
        home: where the user gets it by hand.
        tick: called with the number of bytes that have arrived.

    Raises:
        UserError: an address that is not http or https, no network, an error of the server, a connection that ended
            early or is too slow, a file that is not the one expected. OSError: the disk.
    """
    check_web(url)
    if path.is_dir():
        raise UserError(f"{path} is a folder, but should be a file", "move it away")
    while True:
        resumed = _receive(url, path, file, home, tick)
        wrong = fault(part_path(path), file) if file else None
        if wrong is None:
            move(part_path(path), path)
            return
        part_path(path).unlink()
        if not resumed:
            raise UserError(f"{url} is not the file expected ({wrong.kind}: {wrong.detail})", _by_hand(home, path))


def check_web(url: str, before: str = "") -> None:
    """UserError unless the address is http or https, or where it leaves the https of the address before it."""
    try:
        scheme = urlsplit(url).scheme
    except ValueError as error:
        raise UserError(f"{url} is not a valid address ({error})", "name an address on the web") from None
    if scheme not in ("http", "https"):
        raise UserError(f"{url} is neither http nor https", "name an address on the web")
    if scheme == "http" and urlsplit(before).scheme == "https":
        raise UserError(f"{before} leads to {url}, which is not encrypted", "try later, or take the file from a mirror")


class _WebOnly(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        check_web(newurl, before=req.full_url)
        fp.close()  # else all of its text is read, however long
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _receive(url: str, path: Path, file: File | None, home: str, tick: Tick) -> bool:
    """Bring the part to its end; whether bytes of an earlier attempt are in it."""
    part = part_path(path)
    begun = part.stat().st_size if part.exists() else 0
    if file and file.size is not None and begun >= file.size:
        return True  # whole, or too long: its checksum says
    try:
        with _answer(url, begun) as answer:
            begun = begun if _goes_on(answer, begun) else 0
            tick(begun)
            expected = _length(answer, begun)
            total = begun + _write(answer, url, path, begun, file.size if file else None, tick)
    except UserError:
        raise
    except HTTPError as error:
        if error.code == 416 and begun:  # nothing is left to send
            return True
        raise _refused(url, error, _by_hand(home, path)) from None
    except URLError as error:
        raise _unreachable(url, error.reason) from None
    except (ValueError, OverflowError, InvalidURL) as error:  # a host or port that cannot be
        raise UserError(f"{url} is, or leads to, an invalid address ({error})", _by_hand(home, path)) from None
    except (ConnectionError, TimeoutError, ssl.SSLError, HTTPException) as error:
        raise UserError(f"{url} broke off ({error or type(error).__name__})", AGAIN) from None
    longer = file is not None and file.size is not None and total > file.size
    if expected is not None and total < expected and not longer:
        raise UserError(f"{url} broke off after {total} of {expected} bytes", AGAIN)
    return begun > 0


def _answer(url: str, begun: int) -> HTTPResponse:
    """The server's answer, its body not yet read.

    Asked in a thread: a server that sends its headers byte by byte meets no other limit.
    """
    request = Request(url, headers={"User-Agent": "isotrope", **({"Range": f"bytes={begun}-"} if begun else {})})
    outcome: list[HTTPResponse | BaseException] = []

    def ask() -> None:
        try:
            outcome.append(build_opener(_WebOnly).open(request, timeout=TIMEOUT))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(WINDOW)
    if not outcome:
        raise UserError(f"{url} has not answered for {WINDOW:.0f} seconds", AGAIN)
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def _write(answer: HTTPResponse, url: str, path: Path, begun: int, size: int | None, tick: Tick) -> int:
    """The bytes that arrived after the ``begun`` ones; a file longer than ``size`` is another one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrived, since, before = 0, time.monotonic(), 0
    with growing_file(path, begun) as out:
        while (size is None or begun + arrived <= size) and (chunk := answer.read1(CHUNK)):
            out.write(chunk)
            arrived += len(chunk)
            tick(len(chunk))
            if (seconds := time.monotonic() - since) > WINDOW:
                if arrived - before < SLOWEST * seconds:
                    problem = f"{url} gives less than {SLOWEST:,} bytes a second"
                    raise UserError(f"{problem}; {begun + arrived} bytes are here", AGAIN)
                since, before = time.monotonic(), arrived
    return arrived


def _goes_on(answer: HTTPResponse, begun: int) -> bool:
    """Whether the server sends the rest, not the whole."""
    found = re.match(r"bytes (\d{1,18})-", answer.headers.get("Content-Range", ""))
    return answer.status == 206 and found is not None and int(found[1]) == begun


def _length(answer: HTTPResponse, begun: int) -> int | None:
    length = answer.headers.get("Content-Length", "")
    return begun + int(length) if re.fullmatch(r"\d{1,18}", length) else None


def _refused(url: str, error: HTTPError, by_hand: str) -> UserError:
    if error.code in (404, 410):
        return UserError(f"{url} does not exist any more ({error.code})", by_hand)
    return UserError(f"{url} is refused ({error.code} {error.reason:.80})", f"try later, or {by_hand}")


def _unreachable(url: str, reason: object) -> UserError:
    why = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason)
    return UserError(
        f"{urlsplit(url).netloc} cannot be reached ({why})",
        "check the network and the proxy (https_proxy), or name a copy of the data with --mirror",
    )


def _by_hand(home: str, path: Path) -> str:
    return f"get it by way of {home} and put it at {path}"
