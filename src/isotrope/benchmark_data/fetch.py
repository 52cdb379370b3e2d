"""``isotrope data fetch``: data sets from the web into a folder, each file verified before it is in
its place.
"""

import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from isotrope.benchmark_data.sources import DataSource, File, choose, fault
from isotrope.console.progress import Bar
from isotrope.errors import UserError, needs
from isotrope.store.files import DRAFT, move, remove, writing
from isotrope.store.job import alone

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
) -> Sequence[DataSource]:
    """Fetch data sets to a folder; files that are there already, and right, are left.

    Args:
        data: the folder.
        names: of sources or groups; none: all but the corpus.
        mirror: the address of a copy of such a folder.
        official: take files from the archives of those who made the data, if they have archives;
            else from the copies at fixed commits. Either way they are the same, by their sha256.
        say: is told a line for each data set.
        bar: is moved by the bytes of each file.

    Returns:
        The sources.

    Raises:
        UserError: an unknown name, an address that is not on the web, no network, what the server
            or the disk refuses, a file that is not the one expected, another process that fetches
            into the folder.
    """
    sources = choose(names)
    folder = Path(data).expanduser()
    if mirror is not None and official:
        raise UserError(
            "--mirror and --official are two places", "give one of them", code="two-places"
        )
    if mirror is not None and not mirror.startswith(("http://", "https://")):
        raise UserError(
            f"{mirror} is neither http nor https", "name an address on the web", code="bad-mirror"
        )

    with writing(folder, AGAIN):
        missing = {source.name: _missing_files(folder, source) for source in sources}
        sizes = [file.size for files in missing.values() for file in files]
        if bar and None not in sizes:
            bar.update(total=sum(filter(None, sizes)))
        with alone(folder) if sizes else nullcontext():
            for source in sources:
                files = missing[source.name]
                if not files:
                    say(f"{source.name}: there already")
                    continue
                say(f"{source.name}: {source.rows}; licence: {source.licence}; {source.home}")
                _fetch_source(source, files, folder / source.folder, mirror, official, bar)
    return sources


def _missing_files(folder: Path, source: DataSource) -> list[File]:
    """The files of a source that are not there as they should be."""
    target = folder / source.folder
    return [file for file in source.files if fault(target / file.name, file)]


def _fetch_source(
    source: DataSource,
    files: Sequence[File],
    folder: Path,
    mirror: str | None,
    official: bool,
    bar: Bar | None,
) -> None:
    """Put some files of a source into its folder, each when it has been verified."""
    work = folder / f".download{DRAFT}"
    with writing(folder, AGAIN):
        remove(work)  # a killed process may have left it
        try:
            by_hand = f"get it from {source.home}, and put it into {folder}"
            if official and source.archives:
                downloads = _from_archives(source, files, work, by_hand)
            else:
                downloads = _from_copies(source, files, work, by_hand, mirror)
            for download in downloads:
                wrong = fault(download.path, download.file)
                if wrong:
                    raise UserError(
                        f"{download.origin} is not the file expected "
                        f"({wrong.kind}: {wrong.detail})",
                        download.remedy,
                        code="unexpected-file",
                    )
                move(download.path, folder / download.file.name)
                if bar:
                    bar.advance(download.file.size or 0)
        finally:
            remove(work)


@dataclass(frozen=True, slots=True)
class _Download:
    """A file that was fetched, and has not been verified."""

    file: File
    path: Path
    origin: str  # in words
    remedy: str  # if it is not the file expected


def _from_archives(
    source: DataSource, files: Sequence[File], work: Path, by_hand: str
) -> Iterator[_Download]:
    """Files from the archives of those who made the data; a licence may be missing there."""
    members: dict[str, Path] = {}
    for url in source.archives:
        archive = _downloaded(url, work, None, by_hand)
        members |= {path.name: path for path in _unpacked(archive, url)}

    for file in files:
        path = members.get(file.name, work / file.name)
        origin = f"{file.name} in {', '.join(source.archives)}"
        if file.name in members or not file.document:
            yield _Download(file, path, origin, "run the command without --official")


def _from_copies(
    source: DataSource, files: Sequence[File], work: Path, by_hand: str, mirror: str | None
) -> Iterator[_Download]:
    """Files from the copies at fixed commits, or from a mirror, one after the other."""
    for file in files:
        url = source.url(file)
        if mirror:
            path_on_mirror = quote(f"{source.folder}/{file.name}")
            url = f"{mirror.rstrip('/')}/{path_on_mirror}"
        path = _downloaded(url, work, file.sha256, by_hand)
        yield _Download(file, path, url, by_hand)


def _downloaded(url: str, work: Path, sha256: str | None, by_hand: str) -> Path:
    """The file behind an address, in a folder for it. Bad connections and other files are tried
    again.
    """
    pooch: Any = needs("data", "pooch")
    from requests import RequestException

    pooch.get_logger().setLevel("ERROR")
    fetcher = pooch.create(
        work, "", registry={"file": sha256}, urls={"file": url}, retry_if_failed=RETRIES
    )
    (work / "file").unlink(missing_ok=True)
    try:
        return Path(fetcher.fetch("file", downloader=pooch.HTTPDownloader(timeout=TIMEOUT)))
    except (RequestException, ValueError) as error:
        raise UserError(
            f"{url} cannot be fetched ({error})",
            f"check the network and the proxy (https_proxy), and {AGAIN}; or {by_hand}",
            code="not-fetched",
        ) from error


def _unpacked(archive: Path, url: str) -> list[Path]:
    """The files of a zip or tar archive, in a folder beside it; none that would lead out of the
    folder.
    """
    folder = archive.with_name(f"unpacked {url.rpartition('/')[2]}")
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                zipped.extractall(folder)  # which drops what would lead out of the folder
        else:
            shutil.unpack_archive(archive, folder, "tar", filter="data")
    except (
        shutil.ReadError,
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        RuntimeError,
    ) as error:
        raise UserError(
            f"{url} cannot be unpacked ({error})", "download it again", code="bad-archive"
        ) from error
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]
