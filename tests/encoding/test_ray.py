"""Encoding with Ray's actors on this machine: real Ray, the same bytes as one process."""

from __future__ import annotations

from importlib import util
from pathlib import Path

import pytest

from isotrope.encoding.encode import encode
from isotrope.encoding.ray import check_cluster
from isotrope.errors import UserError
from small_shards import contents, lines

needs_ray = pytest.mark.skipif(util.find_spec("ray") is None, reason="needs isotrope[ray]")


def test_without_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, before the model and the files are looked at."""
    monkeypatch.setattr("isotrope.encoding.engines.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"Ray, which is not installed: pip install 'isotrope\[ray\]'"):
        encode("no-model", "no-file.txt", tmp_path / "v", engine="ray")


@pytest.mark.slow
@needs_ray
def test_equal_to_one_process(tmp_path: Path, tiny_model: Path, corpus_file: Path) -> None:
    """All files, byte by byte; an actor's process that is killed in the middle changes nothing."""
    import psutil

    file = lines(corpus_file, tmp_path / "c.txt", 200)
    one = encode(tiny_model, file, tmp_path / "one", shard=13, batch_size=4)
    killed: list[int] = []

    def kill(done: int) -> None:
        if done >= 26 and not killed:
            actors = [p for p in psutil.Process().children(recursive=True) if "_Actor" in " ".join(p.cmdline())]
            killed.append(actors[0].pid)
            actors[0].kill()

    two = encode(tiny_model, file, tmp_path / "two", shard=13, batch_size=4, engine="ray", jobs=2, progress=kill)
    assert killed
    assert contents(two) == contents(one)
    children = psutil.Process().children(recursive=True)
    assert not [child for child in children if "ray" in " ".join(child.cmdline())]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999"])
def test_no_cluster_at_the_address(address: str) -> None:
    """Told at once: Ray itself waits for more than a minute."""
    with pytest.raises(UserError, match=f"no cluster answers at {address} "):
        check_cluster(address)


def test_a_word_is_left_to_ray() -> None:
    check_cluster("auto")


@needs_ray
def test_no_worker_without_a_cluster(tmp_path: Path, tiny_model: Path, corpus_file: Path) -> None:
    with pytest.raises(UserError, match=r"no cluster answers at 127\.0\.0\.1:1 "):
        encode(tiny_model, corpus_file, tmp_path / "v", engine="ray", jobs=1, address="127.0.0.1:1")
