"""``isotrope data fetch``: data sets from the web into a folder, each file verified before it is in its place."""

import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from isotrope.console.progress import Bar
from isotrope.datasets.checking import fault
from isotrope.datasets.sources import DataSource, File, choose
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
    if mirror is not None and (official or not mirror.startswith(("http://", "https://"))):
        problem = "--mirror and --official are two places" if official else f"{mirror} is neither http nor https"
        raise UserError(problem, "give one of them" if official else "name an address on the web")
    with writing(folder, AGAIN):
        missing = {
            source.name: [file for file in source.files if fault(folder / source.folder / file.name, file)]
            for source in chosen
        }
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


def _fetch(
    source: DataSource, missing: list[File], folder: Path, mirror: str | None, official: bool, bar: Bar | None
) -> None:
    by_hand = f"get it from {source.home}, and put it into {folder}"

    def put(found: Path, file: File, what: str) -> None:
        if wrong := fault(found, file):
            raise UserError(f"{what} is not the file expected ({wrong[0]}: {wrong[1]})", by_hand)
        if (folder / file.name).is_dir():
            raise UserError(f"{folder / file.name} is a folder, but should be a file", "move it away")
        move(found, folder / file.name)

    if not (official and source.archives):
        for file in missing:
            url = f"{mirror.rstrip('/')}/{quote(f'{source.folder}/{file.name}')}" if mirror else source.url(file)
            with _downloaded(url, folder, file.sha256, by_hand, bar) as found:
                put(found, file, url)
        return
    left = {file.name: file for file in missing}
    for url in source.archives:
        with _downloaded(url, folder, None, by_hand, bar) as archive:
            for found in _unpacked(archive, url):
                if wanted := left.pop(found.name, None):
                    put(found, wanted, f"{wanted.name} in {url}")
    if lost := [name for name, file in left.items() if not file.document]:
        problem = f"{', '.join(source.archives)}: without {', '.join(lost)}"
        raise UserError(problem, "run the command without --official")


@contextmanager
def _downloaded(url: str, folder: Path, sha256: str | None, by_hand: str, bar: Bar | None) -> Iterator[Path]:
    """The file behind an address, until it is moved away. Bad connections and other files are tried again."""
    pooch: Any = needs("data", "pooch")
    from requests import RequestException

    pooch.get_logger().setLevel("ERROR")
    work = folder / f".download{DRAFT}"  # a killed process may have left it
    remove(work)
    try:
        hound = pooch.create(work, "", registry={"file": sha256}, urls={"file": url}, retry_if_failed=RETRIES)
        downloader = pooch.HTTPDownloader(progressbar=_Ticks(bar) if bar else False, timeout=TIMEOUT)
        try:
            found = Path(hound.fetch("file", downloader=downloader))
        except (RequestException, ValueError) as error:
            raise UserError(*_why(url, error, by_hand)) from error
        yield found
    finally:
        remove(work)


def _why(url: str, error: Exception, by_hand: str) -> tuple[str, str]:
    """What has gone wrong on the web, and the remedy."""
    from requests import ConnectionError, HTTPError, Timeout
    from requests.exceptions import ChunkedEncodingError

    server = urlsplit(url).netloc
    if isinstance(error, HTTPError):
        status, reason = error.response.status_code, f"{error.response.reason:.80}"
        if status == 429:
            return f"{server} refuses so many requests (429 {reason})", f"wait some minutes, then {AGAIN}"
        if status in (404, 410):
            return f"{url} does not exist any more ({status})", by_hand
        return f"{url} is refused ({status} {reason})", f"try later, or {by_hand}"
    if isinstance(error, Timeout) or (isinstance(error, ConnectionError) and "timed out" in str(error)):
        return f"{url} gave nothing for {TIMEOUT:.0f} seconds", AGAIN
    if isinstance(error, ConnectionError):
        remedy = "check the network and the proxy (https_proxy), or name a copy of the data with --mirror"
        return f"{server} cannot be reached", remedy
    if isinstance(error, ChunkedEncodingError):
        return f"{url} broke off", AGAIN
    if "hash" in str(error):  # of pooch
        return f"{url} is not the file expected (another sha256)", by_hand
    return f"{url} is, or leads to, an invalid address ({error})", by_hand


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
