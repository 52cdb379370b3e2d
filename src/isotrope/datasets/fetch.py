"""``isotrope data fetch``: data sets from the web into a folder, each file verified before it is in its place."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from isotrope.console.progress import Bar
from isotrope.datasets.sources import DataSource, File, choose
from isotrope.datasets.verify import fault
from isotrope.errors import UserError, needs
from isotrope.store.atomic import move
from isotrope.store.disk import writing
from isotrope.store.lock import alone
from isotrope.store.mark import DRAFT, remove

TIMEOUT = 30.0  # seconds without a byte
RETRIES = 2
AGAIN = "run the command again: it goes on with the files that are missing"


def fetch_data(
    data: str | Path,
    names: Iterable[str] = (),
    mirror: str | None = None,
    official: bool = False,
    say: Callable[[str], None] = lambda line: None,
    bar: Bar | None = None,
) -> list[DataSource]:
    """Fetch sources by name or group (default: all but the corpus) to the folder ``data``.

    What is there already and right is left.

    Args:
        data: the data folder.
        names: of data sets or groups.
        mirror: the address of a copy of such a folder.
        official: take the archives of those who made the data, where they hold these files; else, and without it, the
            copies at fixed commits. Either way the files are the same, by their sha256.
        say: called with a line for each data set.
        bar: is moved by the bytes that arrive.

    Returns:
        The sources.

    Raises:
        UserError: an unknown name, an address that is not on the web, no network, what the server or the disk
            refuses, a file that is not the one expected, another process that fetches into the folder.
    """
    chosen, folder = choose(names), Path(data).expanduser()
    if mirror is not None:
        if not mirror.startswith(("http://", "https://")):
            raise UserError(f"{mirror} is neither http nor https", "name an address on the web")
        if official:
            raise UserError("--mirror and --official are two places", "give one of them")
    with writing(folder, AGAIN):
        missing = {source.name: _missing(source, folder) for source in chosen}
        sizes = [file.size for files in missing.values() for file in files]
        if bar and not official and None not in sizes:
            bar.update(total=sum(size or 0 for size in sizes))
        with alone(folder) if sizes else nullcontext():
            for source in chosen:
                if files := missing[source.name]:
                    say(f"{source.name}: {source.rows}; licence: {source.licence}; {source.home}")
                    with writing(folder / source.folder, AGAIN):
                        _fetch(source, files, folder / source.folder, mirror, official, bar)
                else:
                    say(f"{source.name}: there already")
    return list(chosen)


def _missing(source: DataSource, folder: Path) -> list[File]:
    return [file for file in source.files if fault(folder / source.folder / file.name, file)]


def _fetch(
    source: DataSource, missing: list[File], folder: Path, mirror: str | None, official: bool, bar: Bar | None
) -> None:
    left = {file.name: file for file in missing}
    if not (official and source.archives):
        for file in missing:
            url = f"{mirror.rstrip('/')}/{quote(f'{source.folder}/{file.name}')}" if mirror else source.url(file)
            with _downloaded(url, folder, file.sha256, source.home, bar) as found:
                _put(found, folder, file, url, source.home)
        return
    for url in source.archives:
        with _downloaded(url, folder, None, source.home, bar) as archive:
            for found in _unpacked(archive, url):
                if wanted := left.pop(found.name, None):
                    _put(found, folder, wanted, f"{wanted.name} in {url}", source.home)
    if lost := [name for name, file in left.items() if not file.document]:
        problem = f"{', '.join(source.archives)}: without {', '.join(lost)}"
        raise UserError(problem, "run the command without --official")


def _put(found: Path, folder: Path, file: File, what: str, home: str) -> None:
    """A file that has come, in its place if it is the one expected."""
    if wrong := fault(found, file):
        raise UserError(f"{what} is not the file expected ({wrong.kind}: {wrong.detail})", _by_hand(home, folder))
    if (folder / file.name).is_dir():
        raise UserError(f"{folder / file.name} is a folder, but should be a file", "move it away")
    move(found, folder / file.name)


@contextmanager
def _downloaded(url: str, folder: Path, sha256: str | None, home: str, bar: Bar | None) -> Iterator[Path]:
    """The file behind an address, until it is moved away."""
    work = folder / f".download{DRAFT}"  # a killed process may have left it
    remove(work)
    try:
        yield _retrieved(url, work, sha256, _by_hand(home, folder), bar)
    finally:
        remove(work)


def _retrieved(url: str, work: Path, sha256: str | None, by_hand: str, bar: Bar | None) -> Path:
    """Bad connections and other files are tried again."""
    pooch: Any = needs("data", "pooch")
    from requests import ConnectionError, HTTPError, RequestException, Timeout
    from requests.exceptions import ChunkedEncodingError

    pooch.get_logger().setLevel("ERROR")
    hound = pooch.create(work, "", registry={"file": sha256}, urls={"file": url}, retry_if_failed=RETRIES)
    try:
        downloader = pooch.HTTPDownloader(progressbar=_Ticks(bar) if bar else False, timeout=TIMEOUT)
        return Path(hound.fetch("file", downloader=downloader))
    except HTTPError as error:
        status, reason = error.response.status_code, error.response.reason
        if status == 429:
            problem = f"{urlsplit(url).netloc} refuses so many requests (429 {reason:.80})"
            raise UserError(problem, f"wait some minutes, then {AGAIN}") from error
        if status in (404, 410):
            raise UserError(f"{url} does not exist any more ({status})", by_hand) from error
        raise UserError(f"{url} is refused ({status} {reason:.80})", f"try later, or {by_hand}") from error
    except (Timeout, ConnectionError) as error:
        if isinstance(error, Timeout) or "timed out" in str(error):  # after the first bytes, it is the other
            raise UserError(f"{url} gave nothing for {TIMEOUT:.0f} seconds", AGAIN) from error
        remedy = "check the network and the proxy (https_proxy), or name a copy of the data with --mirror"
        raise UserError(f"{urlsplit(url).netloc} cannot be reached", remedy) from error
    except ChunkedEncodingError as error:
        raise UserError(f"{url} broke off", AGAIN) from error
    except (RequestException, ValueError) as error:  # of pooch, about the checksum; of an address
        if "hash" in str(error):
            raise UserError(f"{url} is not the file expected (another sha256)", by_hand) from error
        raise UserError(f"{url} is, or leads to, an invalid address ({error})", by_hand) from error


def _by_hand(home: str, folder: Path) -> str:
    return f"get it from {home}, and put it into {folder}"


class _Ticks:
    """A bar as pooch moves it: by whole blocks, and in the end back and to the true size."""

    total = 0

    def __init__(self, bar: Bar) -> None:
        self._bar, self._done = bar, 0

    def update(self, count: int) -> None:
        self._bar.advance(count)
        self._done += count

    def reset(self) -> None:
        self.update(-self._done)

    def close(self) -> None:
        """Nothing: further files follow."""


def _unpacked(archive: Path, url: str) -> Iterable[Path]:
    """The files of a zip or tar archive, in a folder beside it."""
    folder = archive.with_name("unpacked")
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                zipped.extractall(folder)  # which drops what would lead out of the folder
        else:
            with tarfile.open(archive) as tarred:
                tarred.extractall(folder, filter="data")
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, RuntimeError, NotImplementedError) as error:
        raise UserError(f"{url} cannot be unpacked ({error})", "download it again") from error
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]
