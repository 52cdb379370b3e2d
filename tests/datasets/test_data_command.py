"""`isotrope data`: from the web, over a real server on this machine, to a verified folder; and what can go wrong."""

from __future__ import annotations

import hashlib
import io
import os
import re
import resource
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_bad_inputs import check_line, in_process

import isotrope.datasets.sources as known
from conftest import ROOT
from isotrope.datasets.archives import unpack
from isotrope.datasets.checking import check
from isotrope.datasets.download import check_web, download
from isotrope.datasets.fetch import fetch
from isotrope.datasets.prepare import prepare
from isotrope.datasets.sources import File, Source, choose, sources
from isotrope.datasets.tokenise import tokenise
from isotrope.datasets.verify import fault, measure
from isotrope.errors import UserError
from isotrope.evaluation.sets.senteval import SPLITS, SUBSETS, load_sts
from web import Web, serving

TEXT = "".join(f"sentence {i} of a file\n" for i in range(9000)).encode()
HOME = "the makers' page"


def file_of(content: bytes, name: str = "a.txt") -> File:
    return File(name, content.count(b"\n"), len(content), hashlib.sha256(content).hexdigest())


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving() as web:
        yield web


@pytest.fixture
def source(web: Web, monkeypatch: pytest.MonkeyPatch) -> Source:
    """A data set of two files, which the web has one by one and in an archive; the only one that is known."""
    second = b"one\ntwo\n"
    web.pages |= {"/at/a.txt": TEXT, "/at/b.txt": second, "/all.zip": zipped({"in/a.txt": TEXT, "in/b.txt": second})}
    one = Source(
        "One", "transfer", "a test", "9002 lines", "none", HOME, f"{web.base}/at/", "one",
        (file_of(TEXT), file_of(second, "b.txt")), (f"{web.base}/all.zip",),
    )  # fmt: skip
    monkeypatch.setattr(known, "sources", lambda: (one,))
    return one


def zipped(members: dict[str, bytes], mode: int = 0) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo("x")
            info.filename, info.compress_type, info.external_attr = name, zipfile.ZIP_DEFLATED, mode << 16
            archive.writestr(info, content)
    return stream.getvalue()


def tarred(members: dict[str, bytes], kind: bytes = tarfile.REGTYPE, linkname: str = "", mode: str = "w:gz") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, linkname, len(content) if kind == tarfile.REGTYPE else 0
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


# ---- the sources


def test_every_source_is_stated_in_full() -> None:
    assert len({source.name for source in sources()}) == len(sources()) == 20
    for source in sources():
        assert source.licence
        assert source.home.startswith("http")
        assert source.address.endswith("/")
        for file in (*source.files, *source.prepared):
            assert file.name == Path(file.name).name
            assert source.name == "wiki1m" or re.fullmatch("[0-9a-f]{64}", file.sha256 or "")
        if source.verified == "sha256":
            assert re.match(r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/[0-9a-f]{40}/", source.address)
        official = {file.name for file in source.files}
        assert {file.at or file.name for file in source.prepared} <= official
    assert [source.name for source in sources() if source.verified == "rows only"] == ["wiki1m"]


def test_the_rows_are_those_that_loading_asserts() -> None:
    rows = {source.name: [int(n) for n in re.findall(r"\d+", source.rows)] for source in sources()}
    for task, subsets in SUBSETS.items():
        assert rows[task] == [sum(subsets.values())]
    for task, splits in SPLITS.items():
        assert rows[task] == list(splits.values())


def test_the_page_states_every_source() -> None:
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    for s in sources():
        assert f"| {s.name} | {s.title} | {s.rows} | {s.licence} | [page]({s.home}) |" in page


def test_choosing() -> None:
    names = [source.name for source in choose()]
    assert "MR" in names
    assert "wiki1m" not in names
    assert [source.name for source in choose(["mr", "CORPUS"])] == ["MR", "wiki1m"]
    assert choose(["all"]) == sources()
    with pytest.raises(UserError, match=r"no data set 'mrr': choose from sts, .*wiki1m or all"):
        choose(["mrr"])


# ---- one file from the web


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
    (tmp_path / "a.txt.part").write_bytes(stale)
    file = file_of(TEXT) if known_size else replace(file_of(TEXT), size=None)
    download(f"{web.base}/a.txt", tmp_path / "a.txt", file, HOME)
    assert (tmp_path / "a.txt").read_bytes() == TEXT
    assert web.asked[-1] == ("/a.txt", None)


def test_a_whole_part_needs_no_request(web: Web, tmp_path: Path) -> None:
    (tmp_path / "a.txt.part").write_bytes(TEXT)
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
    (tmp_path / "a.txt.part").write_bytes(TEXT[:500])
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
    with pytest.raises(UserError, match=rf"a.txt is .*\({status}.*put it at {tmp_path}/a.txt$"):
        download(f"{web.base}/a.txt", tmp_path / "a.txt", file_of(TEXT), HOME)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://a/b", "/etc/passwd", "data:,x", ""])
def test_only_the_web(url: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="neither http nor https"):
        download(url, tmp_path / "a", None, HOME)


# ---- archives

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
    with pytest.raises(UserError, match=r"truncated.*: delete it and download it again"):
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


# ---- fetch


@pytest.mark.parametrize("official", [False, True])
def test_fetch_and_fetch_again(web: Web, source: Source, tmp_path: Path, official: bool) -> None:
    said: list[str] = []
    fetch(tmp_path, official=official, say=said.append)
    assert (tmp_path / "one" / "a.txt").read_bytes() == TEXT
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["a.txt", "b.txt"]
    assert [path for path, _ in web.asked] == (["/all.zip"] if official else ["/at/a.txt", "/at/b.txt"])
    (tmp_path / "one" / "b.txt").write_bytes(b"spoilt")
    fetch(tmp_path, say=said.append)
    fetch(tmp_path, say=said.append)
    assert web.asked[-1] == ("/at/b.txt", None)
    assert said == [f"One: 9002 lines; licence: none; {HOME}"] * 2 + ["One: there already"]
    assert check(tmp_path)[0].state == "right"


def test_fetch_from_a_mirror(web: Web, source: Source, tmp_path: Path) -> None:
    web.pages |= {"/copy/one/a.txt": TEXT, "/copy/one/b.txt": b"one\ntwo\n"}
    fetch(tmp_path, mirror=f"{web.base}/copy/")
    assert [path for path, _ in web.asked] == ["/copy/one/a.txt", "/copy/one/b.txt"]


def test_the_official_archive_lacks_a_file(web: Web, source: Source, tmp_path: Path) -> None:
    web.pages["/all.zip"] = zipped({"a.txt": TEXT})
    with pytest.raises(UserError, match=r"all.zip: without b.txt: run the command without --official"):
        fetch(tmp_path, official=True)
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["a.txt"]


def test_fetch_on_a_full_disk_and_on(web: Web, source: Source, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        with pytest.raises(
            UserError, match=f"no space left to write {tmp_path}: free some, then run the command again"
        ):
            fetch(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    fetch(tmp_path)
    assert (tmp_path / "one" / "a.txt").read_bytes() == TEXT
    assert web.asked[1] == ("/at/a.txt", f"bytes={1 << 16}-")


# ---- prepare


@pytest.mark.parametrize(
    ("raw", "tokens"),
    [
        ("It's late.", "it 's late ."),
        ("I don't.", "i don 't ."),
        ('"Yes," Mr. Li said.', '" yes , " mr. li said .'),
        ("A & B <c> | d's", "a & b < c > | d 's"),
        ("3.5% of U.S. $1,650", "3.5 % of u.s. $ 1,650"),
        ("Ünïted — Süß…", "ünïted — süß …"),
        ("", ""),
    ],
)
def test_moses_tokens(raw: str, tokens: str) -> None:
    assert tokenise(raw) == tokens


def same(made: Path, given: Path) -> None:
    assert sorted(path.name for path in made.iterdir()) == sorted(path.name for path in given.iterdir())
    for path in made.iterdir():
        assert path.read_bytes() == (given / path.name).read_bytes(), path.name


def test_prepare_gives_sentevals_bytes(data: Path, tmp_path: Path) -> None:
    official = tmp_path / "sts-raw" / "STS13-en-test"
    shutil.copytree(data / "sts-raw" / "STS13-en-test", official, copy_function=shutil.copyfile)
    assert check(tmp_path, ["STS13"])[0].state == "not prepared"
    made = prepare(tmp_path)
    assert made == [tmp_path / "senteval" / "downstream" / "STS" / "STS13-en-test"]
    same(made[0], data / "senteval" / "downstream" / "STS" / "STS13-en-test")
    assert check(tmp_path, ["STS13"])[0].state == "right"
    assert sum(map(len, load_sts(tmp_path, "STS13").values())) == 1500
    (official / "STS.gs.FNWN.txt").write_text("1.0\n" * 189)
    with pytest.raises(UserError, match=r"STS.gs.FNWN.txt: changed .*: run isotrope data fetch --only STS13"):
        prepare(tmp_path)


@pytest.mark.slow
def test_prepare_gives_sentevals_bytes_for_all(data: Path, tmp_path: Path) -> None:
    made = prepare(data, tmp_path)
    assert len(made) == 7
    for folder in made:
        same(folder, data / folder.relative_to(tmp_path))


def test_nothing_to_prepare(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no official files to prepare .*: run isotrope data fetch --only sts"):
        prepare(tmp_path)
    with pytest.raises(UserError, match=r"readme.txt|STS.gs.FNWN.txt: missing"):
        prepare(tmp_path, names=["STS13"])


# ---- check


@given(st.binary(max_size=300))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_measuring(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    seen = measure(path)
    assert seen.sha256 == hashlib.sha256(content).hexdigest()
    assert seen.unix_sha256 == hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()
    assert seen.lines == content.count(b"\n") + (content[-1:] not in (b"", b"\n"))


def test_windows_line_ends_over_the_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotrope.datasets.verify.CHUNK", 7)
    (tmp_path / "a.txt").write_bytes(TEXT.replace(b"\n", b"\r\n"))
    wrong = fault(tmp_path / "a.txt", file_of(TEXT))
    assert wrong is not None
    assert wrong.kind == "converted"


Spoil = Callable[[Path], object]


def rewrite(change: Callable[[bytes], bytes]) -> Spoil:
    return lambda path: path.write_bytes(change(path.read_bytes()))


SPOILT: dict[str, tuple[Spoil, str]] = {
    "missing": (Path.unlink, "missing (not there)"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "unreadable (Is a directory)"),
    "empty": (rewrite(lambda _: b""), "empty (0 rows)"),
    "cut": (rewrite(lambda text: text[:1000]), "corrupt (… lines, 5000 expected)"),
    "a word": (
        rewrite(lambda text: text.replace(b"the", b"der", 1)),
        "changed (5000 lines as expected, but other text)",
    ),
    "Windows": (
        rewrite(lambda text: text.replace(b"\n", b"\r\n")),
        "converted (the right text with Windows line ends)",
    ),
    "swapped": (
        lambda path: path.write_bytes(path.with_name("subj.subjective").read_bytes()),
        "swapped (it is senteval/downstream/SUBJ/subj.subjective)",
    ),
}


@pytest.mark.parametrize(("spoil", "expected"), SPOILT.values(), ids=SPOILT.keys())
def test_check_names_what_is_wrong(
    data: Path,
    tmp_path: Path,
    spoil: Spoil,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "senteval" / "downstream" / "SUBJ"
    shutil.copytree(data / "senteval" / "downstream" / "SUBJ", folder, copy_function=shutil.copyfile)
    command = ["data", "check", str(tmp_path), "--only", "SUBJ"]
    assert in_process(command, monkeypatch) == 0
    assert capfd.readouterr().out == "SUBJ: right (10000 sentences)\n"
    spoil(folder / "subj.objective")
    assert in_process(command, monkeypatch) == 2
    out, err = capfd.readouterr()
    kind, detail = expected.rstrip(")").split(" (")
    remedy = f"isotrope data fetch {tmp_path} --only SUBJ"
    known_note = "" if kind == "missing" else "; a corrupt SUBJ circulates, on which accuracies of 99.6 come out"
    check_line(err, f"SUBJ/subj.objective in {tmp_path} is {kind} ({detail}){known_note}: {remedy}")
    table = " ".join(out.split())
    assert f"SUBJ: wrong (10000 sentences){known_note}" in table
    assert re.search(rf"subj.objective {kind} .*{re.escape(remedy)}", table), table


def test_check_of_what_is_not_there(data: Path, tmp_path: Path) -> None:
    states = {one.source.name: one for one in check(tmp_path)}
    assert states["MR"].state == states["STS12"].state == "wrong"
    assert states["MR"].findings[0].kind == "missing"
    assert states["SciFact"].state == "not fetched"
    assert not states["SciFact"].findings
    assert check(tmp_path, ["SciFact"])[0].state == "wrong"
    assert {one.state for one in check(data)} == {"right"}


def test_a_licence_may_be_missing(data: Path, tmp_path: Path) -> None:
    below = Path("senteval") / "downstream" / "SICK"
    shutil.copytree(data / below, tmp_path / below, ignore=shutil.ignore_patterns("readme*"))
    assert check(tmp_path, ["SICKRelatedness"])[0].state == "right"


# ---- the command line

UNREACHABLE = "http://127.0.0.1:1"
BAD: dict[str, tuple[list[str], str]] = {
    "no folder": (["data", "fetch"], "no data folder given … ISOTROPE_DATA"),
    "unknown": (["data", "fetch", "d", "--only", "mr,foo"], "no data set 'foo' … choose from"),
    "no set": (["data", "fetch", "d", "--only", ""], "no data set '' … choose from"),
    "no network": (
        ["data", "fetch", "d", "--only", "MR", "--mirror", UNREACHABLE],
        "127.0.0.1:1 cannot be reached (Connection refused) … the network",
    ),
    "mirror on disk": (["data", "fetch", "d", "--mirror", "file:///d"], "neither http nor https … address"),
    "two places": (["data", "fetch", "d", "--mirror", UNREACHABLE, "--official"], "two places … one of them"),
    "check nothing": (["data", "check", "no/such"], "no/such does not exist … isotrope data fetch"),
    "prepare nothing": (["data", "prepare", "no/such"], "no/such does not exist … isotrope data fetch"),
    "list unknown": (["data", "list", "--only", "x"], "no data set 'x' … choose from"),
}


@pytest.mark.parametrize(("command", "expected"), BAD.values(), ids=BAD.keys())
def test_mistakes_end_with_one_line(
    command: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ISOTROPE_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert in_process(command, monkeypatch) == 2
    check_line(capfd.readouterr().err, expected)
    assert not list(tmp_path.iterdir())


WEB: dict[str, tuple[Callable[[Web], object], list[str], str]] = {
    "gone": (lambda web: web.pages.pop("/at/a.txt"), [], "/at/a.txt is not there any more (404) … put it at"),
    "another": (lambda web: web.pages.update({"/at/a.txt": b"x\n"}), [], "a.txt is not the file expected … put it"),
    "cut": (lambda web: setattr(web, "cut", 99), [], "a.txt broke off after 99 of … bytes … again"),
    "archive cut": (
        lambda web: web.pages.update({"/all.zip": zipped({"a.txt": TEXT})[:-30]}),
        ["--official"],
        "all.zip is truncated … download it again",
    ),
    "archive escapes": (
        lambda web: web.pages.update({"/all.zip": zipped({"../../a.txt": TEXT})}),
        ["--official"],
        "all.zip would write outside its folder (../../a.txt) … do not unpack it",
    ),
}


@pytest.mark.parametrize(("spoil", "more", "expected"), WEB.values(), ids=WEB.keys())
def test_what_the_web_does_ends_with_one_line(
    web: Web,
    source: Source,
    tmp_path: Path,
    spoil: Callable[[Web], object],
    more: list[str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    spoil(web)
    assert in_process(["data", "fetch", str(tmp_path / "d"), *more], monkeypatch) == 2
    check_line(capfd.readouterr().err, expected)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".part"]


def test_list_fetch_and_check(
    web: Web,
    source: Source,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ISOTROPE_DATA", str(tmp_path))
    assert in_process(["data", "list", "--addresses"], monkeypatch) == 0
    out = capfd.readouterr().out
    assert re.search(r"One +transfer +a test +9002 lines +0.2 +none +sha256", out)
    assert f"One: {web.base}/at/b.txt\n" in out
    assert in_process(["data", "fetch"], monkeypatch) == 0
    assert in_process(["data", "check"], monkeypatch) == 0
    assert capfd.readouterr().out.endswith(f"{HOME}\nOne: right (9002 lines)\n")


def official_sts13(folder: Path) -> Path:
    """A whole STS13 of made-up pairs, where SentEval has it; returns its folder."""
    below = folder / "senteval" / "downstream" / "STS" / "STS13-en-test"
    below.mkdir(parents=True)
    for name, count in SUBSETS["STS13"].items():
        pairs = (f"one sentence {i}\tanother {i}\n" for i in range(count))
        (below / f"STS.input.{name}.txt").write_text("".join(pairs), encoding="utf-8")
        (below / f"STS.gs.{name}.txt").write_text("".join(f"{i % 6}\n" for i in range(count)), encoding="utf-8")
    return below


def swap(first: Path, second: Path) -> None:
    held = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(held)


ROWS: dict[str, tuple[str, Spoil, str]] = {
    "missing score": (
        "gs.FNWN",
        rewrite(lambda t: t.replace(b"1\n", b"\n", 1)),
        "188 scored pairs found, 189 expected",
    ),
    "no score": ("gs.FNWN", rewrite(lambda t: t.replace(b"1\n", b"?\n", 1)), "line 2: the score '?' is not a finite"),
    "0 rows": ("gs.OnWN", rewrite(lambda _: b""), "has 561 lines, but STS.gs.OnWN.txt has 0 … check the download"),
    "encoding": ("input.OnWN", rewrite(lambda t: t.replace(b"7", b"\xe9", 1)), "line 8: not UTF-8 text … UTF-8"),
    "UTF-16": ("input.OnWN", rewrite(lambda t: t.decode().encode("utf-16")), "not UTF-8 text … save the file as UTF-8"),
    "subsets": (
        "gs.FNWN",
        lambda path: swap(path, path.with_name("STS.gs.OnWN.txt")),
        "STS.input.FNWN.txt has 189 lines, but STS.gs.FNWN.txt has 561 … check the download",
    ),
    "sides": (
        "gs.FNWN",
        lambda path: swap(path, path.with_name("STS.input.FNWN.txt")),
        "STS.input.FNWN.txt, line 1: 1 column(s), at least 2 expected … check the download",
    ),
}


@pytest.mark.parametrize(("name", "spoil", "expected"), ROWS.values(), ids=ROWS.keys())
def test_bad_rows_end_the_evaluation_with_one_line(
    tiny_model: Path,
    tmp_path: Path,
    name: str,
    spoil: Spoil,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    folder = official_sts13(tmp_path)
    assert sum(map(len, load_sts(tmp_path, "STS13").values())) == 1500
    spoil(folder / f"STS.{name}.txt")
    command = ["evaluate", str(tiny_model), "--tasks", "STS13", "--data", str(tmp_path)]
    assert in_process(command, monkeypatch) == 2
    check_line(capfd.readouterr().err, expected)
