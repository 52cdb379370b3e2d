"""``isotrope data fetch``: data sets from the web into a folder, each file verified before it is in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import quote, urlsplit

from isotrope.datasets.archives import unpack
from isotrope.datasets.download import AGAIN, Tick, check_web, download
from isotrope.datasets.sources import File, Source, choose
from isotrope.datasets.verify import fault
from isotrope.errors import UserError
from isotrope.store.disk import writing


def fetch(
    data: str | Path,
    names: Iterable[str] = (),
    mirror: str | None = None,
    official: bool = False,
    say: Callable[[str], None] = lambda line: None,
    tick: Tick = lambda count: None,
) -> list[Source]:
    """Fetch sources by name or group (default: all but the corpus) to the folder `data`; returns them.

    What is there already and right is left; what was begun goes on. `mirror` is the address of a copy of such a
    folder; `official` takes the archives of those who made the data, where they hold these files (else, and without
    it, the copies at fixed commits). Either way the files are the same, by their sha256.

    Raises:
        UserError: an unknown name, an address that is not on the web, no network, what the server or the disk
            refuses, a file that is not the one expected.
    """
    chosen, folder = choose(names), Path(data).expanduser()
    if mirror is not None:
        check_web(mirror)
        if official:
            raise UserError("--mirror and --official are two places", "give one of them")
    for source in chosen:
        with writing(folder, AGAIN):
            missing = [file for file in source.files if fault(folder / source.folder / file.name, file)]
            if missing:
                say(f"{source.name}: {source.rows}; licence: {source.licence}; {source.home}")
                _fetch(source, missing, folder / source.folder, mirror, official, tick)
            else:
                say(f"{source.name}: there already")
    return list(chosen)


def _fetch(source: Source, missing: list[File], folder: Path, mirror: str | None, official: bool, tick: Tick) -> None:
    if official and source.archives:
        _from_archives(source, missing, folder, tick)
        return
    for file in missing:
        url = f"{mirror.rstrip('/')}/{quote(f'{source.folder}/{file.name}')}" if mirror else source.url(file)
        download(url, folder / file.name, file, source.home, tick)


def _from_archives(source: Source, missing: list[File], folder: Path, tick: Tick) -> None:
    left = list(missing)
    for url in source.archives:
        archive = folder / Path(urlsplit(url).path).name
        download(url, archive, None, source.home, tick)
        try:
            written = unpack(archive, folder, left)
        finally:
            archive.unlink()
        left = [file for file in left if file not in written]
    lost = [file.name for file in left if not file.document]
    if lost:
        raise UserError(
            f"{', '.join(source.archives)}: without {', '.join(lost)}", "run the command without --official"
        )
