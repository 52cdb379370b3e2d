"""Named files out of a zip or tar archive from the web, which may be broken or mean harm."""

from __future__ import annotations

import lzma
import math
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from isotrope.datasets.sources import File
from isotrope.datasets.verify import CHUNK, Fault, WrongFile, new_verified
from isotrope.errors import UserError

_BROKEN = (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, NotImplementedError)
_REMEDY = "download it again"


@dataclass(frozen=True, slots=True)
class _Member:
    """What an archive holds under one name; ``open`` is None for a folder."""

    name: str
    link: bool  # or a device, a pipe: anything but a file or a folder
    open: Callable[[], IO[bytes]] | None


def unpack(archive: Path, folder: Path, files: Sequence[File], name: str | None = None) -> list[File]:
    """Write those of ``files`` that ``archive`` holds, under whatever folder, to ``folder``.

    Each is verified before it takes its place. No member is written under a name of the archive's, and none beyond
    its expected size. An archive with a member outside its folder, or with a link, is refused as a whole.

    Args:
        archive: a zip or tar file.
        folder: where the files are written.
        files: the ones wanted.
        name: how messages call the archive; default: its path.

    Returns:
        The files written.

    Raises:
        UserError: the archive is truncated, encrypted, of another kind or refused, or a member is wrong.
    """
    name = name or str(archive)
    wanted = {file.name: file for file in files}
    written: list[File] = []
    faults: dict[str, Fault] = {}
    try:
        with _opened(archive, name) as members:
            for member in members:
                _refuse(name, member)
            for member in members:
                file = wanted.get(PurePosixPath(member.name).name)
                if member.open is None or file is None or file in written:
                    continue
                try:
                    _write(member.open, folder / file.name, file)
                    written.append(file)
                except WrongFile as error:
                    faults[file.name] = error.fault
    except _BROKEN as error:
        raise UserError(f"{name} is truncated or damaged ({error or type(error).__name__})", _REMEDY) from None
    except RuntimeError as error:
        raise UserError(f"{name} cannot be opened ({error})", "unpack it yourself") from None
    for lost, wrong in faults.items():
        if wanted[lost] not in written:
            raise UserError(f"{lost} in {name} is {wrong.kind} ({wrong.detail})", _REMEDY)
    return written


@contextmanager
def _opened(archive: Path, name: str) -> Iterator[list[_Member]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            yield [_zip_member(zipped, info) for info in zipped.infolist()]
    elif tarfile.is_tarfile(archive):
        with tarfile.open(archive) as tarred:
            yield [_tar_member(tarred, info) for info in tarred]
    else:
        raise UserError(f"{name} is truncated, or neither a zip nor a tar archive", _REMEDY)


def _zip_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    kind = stat.S_IFMT(info.external_attr >> 16)
    link = kind not in (0, stat.S_IFREG, stat.S_IFDIR)
    return _Member(info.filename, link, None if info.is_dir() else lambda: archive.open(info))


def _tar_member(archive: tarfile.TarFile, info: tarfile.TarInfo) -> _Member:
    def opened() -> IO[bytes]:
        stream = archive.extractfile(info)
        assert stream is not None  # a regular file
        return stream

    return _Member(info.name, not (info.isreg() or info.isdir()), opened if info.isreg() else None)


def _refuse(archive: str, member: _Member) -> None:
    remedy = "do not unpack it: it is not the official archive"
    name = PureWindowsPath(member.name)  # knows both kinds of slash, and drives
    if name.anchor or ".." in name.parts:
        raise UserError(f"{archive} would write outside its folder ({member.name})", remedy)
    if member.link:
        raise UserError(f"{archive} holds a link or device ({member.name})", remedy)


def _write(opened: Callable[[], IO[bytes]], path: Path, file: File) -> None:
    with opened() as source, new_verified(path, file) as out:
        left = math.inf if file.size is None else file.size
        while left >= 0 and (chunk := source.read(CHUNK)):
            out.write(chunk)
            left -= len(chunk)
