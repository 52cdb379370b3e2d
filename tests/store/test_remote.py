"""Files behind URLs: the same bytes as on this machine, and one clear line for whatever goes wrong."""

import random
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import fsspec
import pytest

import isotrope.store.remote as remote
from helpers.refusals import refused
from helpers.web import Web
from isotrope.errors import UserError
from isotrope.store.remote import RemoteFile, is_url, remote_files, without_secrets

BYTES = random.Random(0).randbytes(5000)


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The address of a bucket in an object store on this machine, with three files."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    own = {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    own |= {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_EC2_METADATA_DISABLED": "true",
        "no_proxy": host,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in own.items():
            patch.setenv(name, value)
        system = fsspec.filesystem("s3")
        system.mkdir("bucket")
        put(system, "bucket/in/a.txt", "bucket/in/b/c.txt", "bucket/d.txt")
        yield "s3://bucket"
        server.stop()
        system.clear_instance_cache()


@pytest.fixture(autouse=True)
def _small_blocks_and_no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(remote, "WAITS", (0.0, 0.0))


def put(system: fsspec.AbstractFileSystem, *names: str, content: bytes = BYTES) -> None:
    for name in names:
        system.pipe_file(name, content)


def only(url: str) -> RemoteFile:
    (file,) = remote_files(url)
    return file


def test_what_is_a_url() -> None:
    assert all(map(is_url, ("s3://b/x", "memory://x", "https://a.b/c?d", "hf://datasets/a/b")))
    assert not any(map(is_url, ("x.txt", "/a/b", "C:/x", "./s3:x", "", Path("s3://b/x"))))


def test_a_password_and_a_signature_are_not_shown() -> None:
    assert without_secrets("ftp://me:secret@host/a.txt") == "ftp://host/a.txt"
    assert without_secrets("https://host/a.txt?X-Signature=secret") == "https://host/a.txt"
    assert without_secrets("s3://bucket/what?.txt") == "s3://bucket/what?.txt"
    file = RemoteFile("https://host/in/a.txt?X-Signature=secret", 1)
    assert (str(file), file.name) == ("https://host/in/a.txt", "a.txt")


def whole(file: RemoteFile) -> bytes:
    """As text is read: a part at a time."""
    return b"".join(iter(partial(file.open().read, 700), b""))


def test_any_part_of_a_file_is_read(web: Web) -> None:
    web.pages["/a.bin"] = BYTES
    file, generator = only(f"{web.base}/a.bin").open(), random.Random(1)
    for _ in range(50):
        begin, size = generator.randrange(5200), generator.randrange(1, 2500)
        file.seek(begin)
        assert file.read(size) == BYTES[begin : begin + size]


def test_a_folder_and_a_star_give_sorted_files(memory: fsspec.AbstractFileSystem) -> None:
    put(memory, "/c/b.txt", "/c/a/z.txt", "/c/a.txt", "/c/.hidden.txt", "/d.txt")
    files = remote_files("memory://c")
    assert [file.inside for file in files] == [".hidden.txt", "a/z.txt", "a.txt", "b.txt"]
    assert [file.name for file in remote_files("memory://c/*.txt")] == [
        ".hidden.txt",
        "a.txt",
        "b.txt",
    ]
    assert all(not file.inside for file in remote_files("memory://c/*.txt"))
    assert only("memory://d.txt").inside == ""
    assert whole(files[1]) == BYTES


def test_a_new_state_is_seen(memory: fsspec.AbstractFileSystem) -> None:
    put(memory, "/a.txt")
    file = only("memory://a.txt")
    assert file.now() == file
    assert file.version
    put(memory, "/a.txt", content=b"new")
    assert file.now().size == 3
    assert file.now().version != file.version


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("htps://b/x.txt", "the unknown scheme 'htps': did you mean 'https'?"),
        ("memory://none.txt", "memory://none.txt cannot be read (/none.txt): check the address"),
        ("memory://none/*.txt", ": check the address"),
        ("http://127.0.0.1:9/a.txt", ": check the connection"),
        (
            "gs://b/x.txt",
            "cannot be read (Please install gcsfs to access Google Storage): install its package",
        ),
    ],
)
def test_a_wrong_url_is_one_clear_line(
    memory: fsspec.AbstractFileSystem, url: str, words: str
) -> None:
    with pytest.raises(UserError) as raised:
        remote_files(url)
    assert words in str(raised.value)


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    # loaded by another test
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, scheme, raising=False)
    with refused("url-cannot-be-read", "isotrope[s3]"):
        remote_files(f"{scheme}://b/x.txt")


def test_a_file_of_the_web_is_read_in_blocks(web: Web) -> None:
    web.pages["/a.bin"] = BYTES
    file = only(f"{web.base}/a.bin")
    assert (file.size, dict(file.version).keys()) == (5000, {"ETag"})
    assert whole(file) == BYTES
    asked = [wanted for _, wanted in web.asked if wanted]
    assert asked == ["bytes=0-1699", "bytes=1700-3099", "bytes=3100-4499", "bytes=4500-4999"], (
        "each byte once"
    )


def test_a_lost_connection_is_tried_again_and_then_told(web: Web) -> None:
    web.pages["/a.bin"] = BYTES
    file, web.cut = only(f"{web.base}/a.bin").open(), 100
    with refused("url-cannot-be-read", "a.bin"):
        file.read(10)
    # once, and after each of the waits
    assert len([wanted for _, wanted in web.asked if wanted]) == 3
    web.cut = None
    assert file.read(10) == BYTES[:10]


@pytest.mark.parametrize(
    ("status", "remedy"), [(403, "your credentials"), (404, "the address"), (500, "the conn")]
)
def test_a_refusal_is_told_and_hides_the_signature(web: Web, status: int, remedy: str) -> None:
    web.pages["/a.txt?key=secret"] = status
    with pytest.raises(UserError) as raised:
        remote_files(f"{web.base}/a.txt?key=secret")
    assert f"a.txt cannot be read (HTTP {status}): check {remedy}" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_server_that_is_asked_too_often_is_asked_again_later(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.pages["/a.bin"] = 429
    with refused("url-cannot-be-read", "429"):
        remote_files(f"{web.base}/a.bin")
    monkeypatch.setattr(remote.time, "sleep", lambda seconds: web.pages.update({"/a.bin": BYTES}))
    assert whole(only(f"{web.base}/a.bin")) == BYTES


def test_a_server_that_stalls_is_told(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "STALLED", 0.2)
    web.pages["/a.bin"] = BYTES
    file = only(f"{web.base}/a.bin")
    web.pause_before = 1
    with refused("url-cannot-be-read", "a.bin"):
        whole(file)


def test_a_server_without_parts_is_told(web: Web) -> None:
    web.pages["/a.bin"], web.ranges = BYTES, False
    with refused("url-cannot-be-read"):
        whole(only(f"{web.base}/a.bin"))


@pytest.mark.slow
def test_an_object_store(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [file.inside for file in remote_files(f"{bucket}/in")] == ["a.txt", "b/c.txt"]
    assert [str(file) for file in remote_files(f"{bucket}/*/*.txt")] == [f"{bucket}/in/a.txt"]
    file = only(f"{bucket}/d.txt")
    assert whole(file) == BYTES
    put(fsspec.filesystem("s3"), "bucket/d.txt", content=BYTES[::-1])
    assert file.now().version != file.version
    for url in (f"{bucket}/none.txt", "s3://none/a.txt"):
        with pytest.raises(UserError, match="check the address"):
            remote_files(url)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    fsspec.filesystem("s3").clear_instance_cache()
    with pytest.raises(
        UserError, match=r"cannot be read .Unable to locate credentials.: check your credentials"
    ):
        remote_files(f"{bucket}/d.txt")
