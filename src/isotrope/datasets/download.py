"""One file from the web: resumed where it broke off, verified, and in its place only when it is whole and right."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from isotrope.datasets.sources import File
from isotrope.datasets.verify import CHUNK, fault
from isotrope.errors import UserError

TIMEOUT = 30.0  # seconds without a byte
AGAIN = "run the command again: it goes on from there"

Tick = Callable[[int], None]  # bytes that have just arrived


def download(url: str, path: Path, file: File | None, home: str, tick: Tick = lambda count: None) -> None:
    """Download `url` to `path`, which should be `file` (None: whoever opens it verifies it). `home` is for the user.

    The bytes gather in `path` + ".part"; a later call goes on from there. What came out wrong after that is fetched
    once more from the start.

    Raises:
        UserError: an address that is not http or https, no network, an error of the server, a connection that ended
            early, a file that is not the one expected. OSError: the disk.
    """
    check_web(url)
    while True:
        resumed = _receive(url, path, file, home, tick)
        wrong = fault(_part(path), file) if file else None
        if wrong is None:
            _part(path).replace(path)
            return
        _part(path).unlink()
        if not resumed:
            raise UserError(f"{url} is not the file expected ({wrong.kind}: {wrong.detail})", _by_hand(home, path))


def check_web(url: str, before: str = "") -> None:
    """UserError unless the address is http or https, or where it leaves the https of the address before it."""
    scheme = urlsplit(url).scheme
    if scheme not in ("http", "https"):
        raise UserError(f"{url} is neither http nor https", "name an address on the web")
    if scheme == "http" and urlsplit(before).scheme == "https":
        raise UserError(f"{before} leads to {url}, which is not encrypted", "try later, or take the file from a mirror")


class _WebOnly(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        check_web(newurl, before=req.full_url)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _receive(url: str, path: Path, file: File | None, home: str, tick: Tick) -> bool:
    """Bring the part to its end; whether bytes of an earlier attempt are in it."""
    part = _part(path)
    begun = part.stat().st_size if part.exists() else 0
    if file and file.size is not None and begun >= file.size:
        return True  # whole, or too long: its checksum says
    request = Request(url, headers={"User-Agent": "isotrope", **({"Range": f"bytes={begun}-"} if begun else {})})
    try:
        with build_opener(_WebOnly).open(request, timeout=TIMEOUT) as answer:
            begun = begun if _goes_on(answer, begun) else 0
            expected = _length(answer, begun)
            total = begun + _write(answer, part, begun, file.size if file else None, tick)
    except HTTPError as error:
        if error.code == 416 and begun:  # nothing is left to send
            return True
        raise _refused(url, error, _by_hand(home, path)) from None
    except URLError as error:
        raise _unreachable(url, error.reason) from None
    except (ConnectionError, TimeoutError, HTTPException) as error:
        raise UserError(f"{url} broke off ({error or type(error).__name__})", AGAIN) from None
    if expected is not None and total < expected:
        raise UserError(f"{url} broke off after {total} of {expected} bytes", AGAIN)
    return begun > 0


def _write(answer: HTTPResponse, part: Path, begun: int, size: int | None, tick: Tick) -> int:
    """The bytes that arrived after the `begun` ones; a file longer than `size` is another one: no need of the rest."""
    part.parent.mkdir(parents=True, exist_ok=True)
    arrived = 0
    with part.open("ab" if begun else "wb") as out:
        while (size is None or begun + arrived <= size) and (chunk := answer.read(CHUNK)):
            out.write(chunk)
            arrived += len(chunk)
            tick(len(chunk))
        out.flush()
        os.fsync(out.fileno())
    return arrived


def _goes_on(answer: HTTPResponse, begun: int) -> bool:
    """Whether the server sends the rest, not the whole."""
    found = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
    return answer.status == 206 and found is not None and int(found[1]) == begun


def _length(answer: HTTPResponse, begun: int) -> int | None:
    length = answer.headers.get("Content-Length", "")
    return begun + int(length) if length.isdecimal() else None


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _refused(url: str, error: HTTPError, by_hand: str) -> UserError:
    if error.code in (404, 410):
        return UserError(f"{url} is not there any more ({error.code})", by_hand)
    return UserError(f"{url} is refused ({error.code} {error.reason})", f"try later, or {by_hand}")


def _unreachable(url: str, reason: object) -> UserError:
    why = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason)
    return UserError(
        f"{urlsplit(url).netloc} cannot be reached ({why})",
        "check the network and the proxy (https_proxy), or name a copy of the data with --mirror",
    )


def _by_hand(home: str, path: Path) -> str:
    return f"get it by way of {home} and put it at {path}"
