"""One file from a web server on this machine, and what can go wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from isotrope.datasets.download import check_web, download
from isotrope.datasets.sources import File
from isotrope.errors import UserError
from isotrope.store.atomic import part_path
from web import HOME, TEXT, Web, file_of


def test_download_and_its_count_of_bytes(web: Web, tmp_path: Path) -> None:
    web.pages["/a.txt"] = TEXT
    counts: list[int] = []
    download(f"{web.base}/a.txt", tmp_path / "new" / "a.txt", file_of(TEXT), HOME, counts.append)
    assert (tmp_path / "new" / "a.txt").read_bytes() == TEXT
    assert sum(counts) == len(TEXT)
    assert [path.name for path in tmp_path.rglob("*.txt*")] == ["a.txt"]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_download_goes_on(web: Web, tmp_path: Path, ranges: bool) -> None:
    web.pages["/a.txt"], web.cut, web.ranges = TEXT, 1000, ranges
    path = tmp_path / "a.txt"
    with pytest.raises(UserError, match=f"broke off after 1000 of {len(TEXT)} bytes: run the command again"):
        download(f"{web.base}/a.txt", path, file_of(TEXT), HOME)
    assert not path.exists()
    web.cut = None
    download(f"{web.base}/a.txt", path, file_of(TEXT), HOME)
    assert path.read_bytes() == TEXT
    assert [asked for _, asked in web.asked] == [None, "bytes=1000-"]


@pytest.mark.parametrize("stale", [b"another beginning", TEXT[:-5] + b"other", TEXT + b"and more"])
@pytest.mark.parametrize("known_size", [True, False])
def test_a_stale_part_costs_one_more_request(web: Web, tmp_path: Path, stale: bytes, known_size: bool) -> None:
    web.pages["/a.txt"] = TEXT
    part_path(tmp_path / "a.txt").write_bytes(stale)
    file = file_of(TEXT) if known_size else replace(file_of(TEXT), size=None)
    download(f"{web.base}/a.txt", tmp_path / "a.txt", file, HOME)
    assert (tmp_path / "a.txt").read_bytes() == TEXT
    assert web.asked[-1] == ("/a.txt", None)


def test_a_whole_part_needs_no_request(web: Web, tmp_path: Path) -> None:
    part_path(tmp_path / "a.txt").write_bytes(TEXT)
    download(f"{web.base}/a.txt", tmp_path / "a.txt", file_of(TEXT), HOME)
    assert (tmp_path / "a.txt").read_bytes() == TEXT
    assert not web.asked


@pytest.mark.parametrize("given", [TEXT[:-1], TEXT.replace(b"7", b"8"), TEXT * 2, b"<html>Welcome</html>", b""])
def test_another_file_is_not_kept(web: Web, tmp_path: Path, given: bytes) -> None:
    web.pages["/a.txt"] = given
    with pytest.raises(UserError, match=f"a.txt is not the file expected .*get it by way of {HOME} and put it at "):
        download(f"{web.base}/a.txt", tmp_path / "a.txt", file_of(TEXT), HOME)
    assert not list(tmp_path.iterdir())


def test_rows_where_no_checksum_is_known(web: Web, tmp_path: Path) -> None:
    web.pages["/a.txt"] = TEXT
    download(f"{web.base}/a.txt", tmp_path / "a.txt", File("a.txt", 9000), HOME)
    with pytest.raises(UserError, match="corrupt: 9000 lines, 9001 expected"):
        download(f"{web.base}/a.txt", tmp_path / "b.txt", File("b.txt", 9001), HOME)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_redirects(web: Web, tmp_path: Path) -> None:
    web.pages |= {
        "/old": "/a.txt",
        "/a.txt": TEXT,
        "/disk": "file:///etc/passwd",
        "/ftp": "ftp://127.0.0.1/a",
        "/round": "/round",
    }
    part_path(tmp_path / "a.txt").write_bytes(TEXT[:500])
    download(f"{web.base}/old", tmp_path / "a.txt", file_of(TEXT), HOME)
    assert web.asked == [("/old", "bytes=500-"), ("/a.txt", "bytes=500-")]
    for path, why in {"/disk": "refused", "/ftp": "neither http nor https", "/round": "refused"}.items():
        with pytest.raises(UserError, match=why):
            download(web.base + path, tmp_path / "b.txt", None, HOME)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    with pytest.raises(UserError, match="not encrypted"):
        check_web("http://there", before="https://here")


@pytest.mark.parametrize("status", [403, 404, 500, 503])
def test_refusals(web: Web, tmp_path: Path, status: int) -> None:
    web.pages["/a.txt"] = status
    with pytest.raises(UserError, match=rf"a.txt (is|does) .*\({status}.*put it at {tmp_path}/a.txt$"):
        download(f"{web.base}/a.txt", tmp_path / "a.txt", file_of(TEXT), HOME)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://a/b", "/etc/passwd", "data:,x", ""])
def test_only_the_web(url: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="neither http nor https"):
        download(url, tmp_path / "a", None, HOME)


# what a server may do, by chance or in bad will


@pytest.mark.parametrize(
    "address",
    ["http://[::1", "http://there:99999999/", "http://there:port/", "http://", "http://\x1b[2J/", "http://ü..ü/"],
)
def test_an_invalid_address_is_one_line(web: Web, tmp_path: Path, address: str) -> None:
    """Issue 13, fault 15: in a redirect; and where the user gives it."""
    web.pages["/old"] = address
    for url in (f"{web.base}/old", address):
        with pytest.raises(UserError) as error:
            download(url, tmp_path / "a.txt", file_of(TEXT), HOME)
        assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_a_slow_server_has_a_limit_and_is_gone_on_with(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 13, fault 18."""
    monkeypatch.setattr("isotrope.datasets.download.WINDOW", 0.3)
    monkeypatch.setattr("isotrope.datasets.download.SLOWEST", 100_000)
    web.pages["/a.txt"], web.pause = TEXT, 0.02
    with pytest.raises(UserError, match=r"a.txt gives less than 100,000 bytes a second; .*: run the command again"):
        download(f"{web.base}/a.txt", tmp_path / "a.txt", file_of(TEXT), HOME)
    begun = part_path(tmp_path / "a.txt").stat().st_size
    assert begun > 0
    web.pause = 0
    download(f"{web.base}/a.txt", tmp_path / "a.txt", file_of(TEXT), HOME)
    assert web.asked[-1] == ("/a.txt", f"bytes={begun}-")
    assert (tmp_path / "a.txt").read_bytes() == TEXT


def test_a_server_that_does_not_answer_has_a_limit(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Header lines may come byte by byte, each within the time limit of a read."""
    monkeypatch.setattr("isotrope.datasets.download.WINDOW", 0.1)
    web.pages["/a.txt"], web.pause_before = TEXT, 0.5
    with pytest.raises(UserError, match="has not answered for 0 seconds"):
        download(f"{web.base}/a.txt", tmp_path / "a.txt", file_of(TEXT), HOME)


def test_a_folder_in_the_place_of_the_file(web: Web, tmp_path: Path) -> None:
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(UserError, match=r"a.txt is a folder, but should be a file: move it away"):
        download(f"{web.base}/a.txt", tmp_path / "a.txt", file_of(TEXT), HOME)
    assert not web.asked
