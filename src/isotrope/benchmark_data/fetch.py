"""``isotrope data fetch``: data sets from the web into a folder, each file verified before it is in
its place.
"""

import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
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
    """Fetch sources by name or group (default: all but the corpus) to the folder ``data``; what is
    right there is left.

    ``mirror`` is the address of a copy of such a folder. With ``official``, files come from the
    archives of those who made the data, if these hold them; else from the copies at fixed commits.
    Either way they are the same, by their sha256. ``say`` is called with a line for each data set,
    and ``bar`` is moved by the bytes of each file.

    Raises:
        UserError: an unknown name, an address that is not on the web, no network, what the server
            or the disk refuses, a file that is not the one expected, another process that fetches
            into the folder.
    """
    chosen, folder = choose(names), Path(data).expanduser()
    if mirror is not None and official:
        raise UserError("--mirror and --official are two places", "give one of them")
    if mirror is not None and not mirror.startswith(("http://", "https://")):
        raise UserError(f"{mirror} is neither http nor https", "name an address on the web")
    with writing(folder, AGAIN):
        missing = [
            [file for file in one.files if fault(folder / one.folder / file.name, file)]
            for one in chosen
        ]
        sizes = [file.size for files in missing for file in files]
        if bar and None not in sizes:
            bar.update(total=sum(size or 0 for size in sizes))
        with alone(folder) if sizes else nullcontext():
            for source, files in zip(chosen, missing, strict=True):
                if not files:
                    say(f"{source.name}: there already")
                    continue
                say(f"{source.name}: {source.rows}; licence: {source.licence}; {source.home}")
                place = folder / source.folder
                work = place / f".download{DRAFT}"
                with writing(place, AGAIN):
                    remove(work)  # a killed process may have left it
                    try:
                        _fetch(source, files, place, work, mirror, official, bar)
                    finally:
                        remove(work)
    return chosen


def _fetch(
    source: DataSource,
    files: list[File],
    place: Path,
    work: Path,
    mirror: str | None,
    official: bool,
    bar: Bar | None,
) -> None:
    by_hand = f"get it from {source.home}, and put it into {place}"
    archives = source.archives if official else ()
    unpacked = {
        path.name: path
        for url in archives
        for path in _unpacked(_downloaded(url, work, None, by_hand), url)
    }
    for file in files:
        if archives:
            if file.document and file.name not in unpacked:
                continue
            found = unpacked.get(file.name, work / file.name)
            url, by_hand = (
                f"{file.name} in {', '.join(archives)}",
                "run the command without --official",
            )
        else:
            url = (
                f"{mirror.rstrip('/')}/{quote(f'{source.folder}/{file.name}')}"
                if mirror
                else source.url(file)
            )
            found = _downloaded(url, work, file.sha256, by_hand)
        if wrong := fault(found, file):
            raise UserError(f"{url} is not the file expected ({wrong[0]}: {wrong[1]})", by_hand)
        move(found, place / file.name)
        if bar:
            bar.advance(file.size or 0)


def _downloaded(url: str, work: Path, sha256: str | None, by_hand: str) -> Path:
    """The file behind an address, in a folder for it. Bad connections and other files are tried
    again.
    """
    pooch: Any = needs("data", "pooch")
    from requests import RequestException

    pooch.get_logger().setLevel("ERROR")
    hound = pooch.create(
        work, "", registry={"file": sha256}, urls={"file": url}, retry_if_failed=RETRIES
    )
    (work / "file").unlink(missing_ok=True)
    try:
        return Path(hound.fetch("file", downloader=pooch.HTTPDownloader(timeout=TIMEOUT)))
    except (RequestException, ValueError) as error:
        remedy = f"check the network and the proxy (https_proxy), and {AGAIN}; or {by_hand}"
        raise UserError(f"{url} cannot be fetched ({error})", remedy) from error


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
        raise UserError(f"{url} cannot be unpacked ({error})", "download it again") from error
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]
