"""``isotrope data fetch``: data sets from the web into a folder, each file verified before it is in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import quote, urlsplit

from isotrope.console.progress import Bar
from isotrope.datasets.archives import unpack
from isotrope.datasets.download import AGAIN, Tick, check_web, download
from isotrope.datasets.sources import DataSource, File, choose
from isotrope.datasets.verify import fault
from isotrope.errors import UserError
from isotrope.store.atomic import part_path
from isotrope.store.disk import writing
from isotrope.store.lock import alone
from isotrope.store.mark import DRAFT, remove


def fetch_data(
    data: str | Path,
    names: Iterable[str] = (),
    mirror: str | None = None,
    official: bool = False,
    say: Callable[[str], None] = lambda line: None,
    bar: Bar | None = None,
) -> list[DataSource]:
    """Fetch sources by name or group (default: all but the corpus) to the folder ``data``.

    What is there already and right is left; what was begun goes on.

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
        check_web(mirror)
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
                    _fetch(source, files, folder / source.folder, mirror, official, bar.advance if bar else _nowhere)
                    for part in (folder / source.folder).glob(f".*{DRAFT}"):
                        remove(part)  # of another way to the same files
                else:
                    say(f"{source.name}: there already")
    return list(chosen)


def _nowhere(count: int) -> None:
    """For who wants no bar."""


def _missing(source: DataSource, folder: Path) -> list[File]:
    return [file for file in source.files if fault(folder / source.folder / file.name, file)]


def _fetch(
    source: DataSource, missing: list[File], folder: Path, mirror: str | None, official: bool, tick: Tick
) -> None:
    if official and source.archives:
        _from_archives(source, missing, folder, tick)
        return
    for file in missing:
        url = f"{mirror.rstrip('/')}/{quote(f'{source.folder}/{file.name}')}" if mirror else source.url(file)
        download(url, folder / file.name, file, source.home, tick)


def _from_archives(source: DataSource, missing: list[File], folder: Path, tick: Tick) -> None:
    left = list(missing)
    for url in source.archives:
        archive = part_path(folder / f"{Path(urlsplit(url).path).name}.whole")
        download(url, archive, None, source.home, tick)
        try:
            written = unpack(archive, folder, left, url)
        finally:
            remove(archive)
        left = [file for file in left if file not in written]
    lost = [file.name for file in left if not file.document]
    if lost:
        raise UserError(
            f"{', '.join(source.archives)}: without {', '.join(lost)}", "run the command without --official"
        )
