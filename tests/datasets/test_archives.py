"""Files out of archives that may be broken or mean harm."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isotrope.datasets.archives import unpack
from isotrope.datasets.sources import File
from isotrope.errors import UserError
from web import TEXT, file_of, tarred, zipped

ESCAPES = {
    "parent": zipped({"../a.txt": TEXT}),
    "parent, deep": zipped({"in/../../a.txt": TEXT}),
    "absolute": zipped({"/etc/a.txt": TEXT}),
    "drive": zipped({"C:\\a.txt": TEXT}),
    "backslashes": zipped({"in\\..\\..\\a.txt": TEXT}),
    "link": zipped({"a.txt": b"/etc/passwd"}, mode=0o120777),
    "tar: parent": tarred({"../a.txt": TEXT}),
    "tar: absolute": tarred({"/etc/a.txt": TEXT}),
    "tar: link": tarred({"a.txt": b""}, tarfile.SYMTYPE, "/etc/passwd"),
    "tar: hard link": tarred({"a.txt": b""}, tarfile.LNKTYPE, "/etc/passwd"),
    "tar: device": tarred({"a.txt": b""}, tarfile.CHRTYPE),
    "tar: pipe": tarred({"a.txt": b""}, tarfile.FIFOTYPE),
    "beside a good one": zipped({"a.txt": TEXT, "../b.txt": b"x"}),
}


@pytest.mark.parametrize("archive", [zipped({"in/a.txt": TEXT, "in/b": b""}), tarred({"in/a.txt": TEXT, "b": b"x"})])
def test_unpacking_takes_what_is_wanted(tmp_path: Path, archive: bytes) -> None:
    (tmp_path / "all").write_bytes(archive)
    file = file_of(TEXT)
    assert unpack(tmp_path / "all", tmp_path, [file, File("c.txt", 1)]) == [file]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "all"]
    assert (tmp_path / "a.txt").read_bytes() == TEXT


@pytest.mark.parametrize("archive", ESCAPES.values(), ids=ESCAPES.keys())
def test_an_archive_that_reaches_out_is_refused(tmp_path: Path, archive: bytes) -> None:
    folder = tmp_path / "deep" / "folder"
    folder.mkdir(parents=True)
    (folder / "all").write_bytes(archive)
    with pytest.raises(UserError, match=r"would write outside its folder|holds a link or device"):
        unpack(folder / "all", folder, [file_of(TEXT), File("b.txt", 1)])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [folder / "all"]


WHOLE = {
    "zip": zipped({"a.txt": TEXT}),
    "tar.gz": tarred({"a.txt": TEXT}),
    "tar.xz": tarred({"a.txt": TEXT}, mode="w:xz"),
}


@pytest.mark.parametrize("kind", WHOLE)
@given(share=st.floats(0, 0.9))  # the last bytes of a tar are padding
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_truncated_archive_is_named(tmp_path: Path, kind: str, share: float) -> None:
    archive = tmp_path / f"all.{kind}"
    archive.write_bytes(WHOLE[kind][: int(share * len(WHOLE[kind]))])
    with pytest.raises(UserError, match=r"truncated.*: download it again"):
        unpack(archive, tmp_path, [file_of(TEXT)])
    assert [path.name for path in tmp_path.iterdir()] == [archive.name]


def test_a_wrong_or_endless_or_locked_member(tmp_path: Path) -> None:
    archive = tmp_path / "all.zip"
    archive.write_bytes(zipped({"a.txt": bytes(50_000_000)}))  # 50 kB, packed
    with pytest.raises(UserError, match=r"a.txt in .* is corrupt"):
        unpack(archive, tmp_path, [file_of(TEXT)])
    locked = bytearray(zipped({"a.txt": TEXT}))
    locked[6] |= 1
    locked[locked.rindex(b"PK\1\2") + 8] |= 1
    archive.write_bytes(locked)
    with pytest.raises(UserError, match=r"encrypted.*: unpack it yourself"):
        unpack(archive, tmp_path, [file_of(TEXT)])
    assert [path.name for path in tmp_path.iterdir()] == ["all.zip"]
