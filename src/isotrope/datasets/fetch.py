"""``isotrope data fetch``: data sets from the web into a folder, each file verified before it is in its place."""

import tarfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import quote

from isotrope.console.progress import Bar
from isotrope.datasets.sources import DataSource, File, choose, fault
from isotrope.errors import UserError
from isotrope.store.atomic import alone, draft_path, move, new_file
from isotrope.store.disk import writing
from isotrope.store.mark import remove
from isotrope.store.remote import remote_files

AGAIN = "run the command again: it goes on with the files that are missing"
_BLOCK = 1 << 16  # bytes between two moves of the bar


def fetch_data(
    data: str | Path,
    names: Iterable[str] = (),
    mirror: str | None = None,
    official: bool = False,
    say: Callable[[str], None] = lambda line: None,
    bar: Bar | None = None,
) -> Sequence[DataSource]:
    """Fetch sources by name or group (default: all but the corpus) to the folder ``data``; what is right there is left.

    ``mirror`` is the URL of a copy of such a folder. With ``official``, files come from the archives of those who
    made the data, if these hold them; else from the copies at fixed commits. Either way they are the same, by their
    sha256. ``say`` is called with a line for each data set, and ``bar`` is moved by the bytes that arrive.

    Raises:
        UserError: an unknown name, a URL that cannot be read, a full disk, a file that is not the one expected,
            another process that fetches into the folder.
    """
    chosen, folder = choose(names), Path(data).expanduser()
    if mirror is not None and official:
        raise UserError("--mirror and --official are two places", "give one of them")
    with writing(folder, AGAIN):
        missing = [[file for file in one.files if fault(folder / one.folder / file.name, file)] for one in chosen]
        sizes = [file.size for files in missing for file in files]
        if bar and not official and None not in sizes:
            bar.update(total=sum(size or 0 for size in sizes))
        with alone(folder) if sizes else nullcontext():
            for source, files in zip(chosen, missing, strict=True):
                if not files:
                    say(f"{source.name}: there already")
                    continue
                say(f"{source.name}: {source.rows}; licence: {source.licence}; {source.home}")
                work = draft_path(folder / "download")  # `alone` removes what a killed process left
                try:
                    work.mkdir()
                    _fetch(source, files, folder / source.folder, work, mirror, official, bar)
                finally:
                    remove(work)
    return chosen


def _fetch(
    source: DataSource, files: list[File], place: Path, work: Path, mirror: str | None, official: bool, bar: Bar | None
) -> None:
    by_hand = f"get it from {source.home}, and put it into {place}"
    archives = source.archives if official else ()
    unpacked = {path.name: path for url in archives for path in _unpacked(_downloaded(url, work, bar), url)}
    for file in files:
        if archives:
            if file.document and file.name not in unpacked:
                continue
            found = unpacked.get(file.name, work / file.name)
            url, by_hand = f"{file.name} in {', '.join(archives)}", "run the command without --official"
        else:
            url = f"{mirror.rstrip('/')}/{quote(f'{source.folder}/{file.name}')}" if mirror else source.url(file)
            found = _downloaded(url, work, bar)
        if wrong := fault(found, file):
            raise UserError(f"{url} is not the file expected ({wrong[0]}: {wrong[1]})", by_hand)
        place.mkdir(parents=True, exist_ok=True)
        move(found, place / file.name)


def _downloaded(url: str, work: Path, bar: Bar | None) -> Path:
    """The file behind a URL, in the folder ``work``."""
    with remote_files(url)[0].open() as remote, new_file(work / "file") as local:
        while block := remote.read(_BLOCK):
            local.write(block)
            if bar:
                bar.advance(len(block))
    return work / "file"


def _unpacked(archive: Path, url: str) -> list[Path]:
    """The files of a zip or tar archive, in a folder beside it. Nothing leads out of it."""
    folder = archive.with_name(f"unpacked {url.rpartition('/')[2]}")
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                zipped.extractall(folder)
        else:
            with tarfile.open(archive) as tarred:
                tarred.extractall(folder, filter="data")
    except (zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        raise UserError(f"{url} cannot be unpacked ({error})", "download it again") from error
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]
