"""What is wrong with a file."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isotrope.datasets.verify import Fault, fault, file_facts
from web import TEXT, file_of


@given(st.binary(max_size=300))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_measuring(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    seen = file_facts(path)
    assert seen.sha256 == hashlib.sha256(content).hexdigest()
    assert seen.unix_sha256 == hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()
    assert seen.lines == content.count(b"\n") + (content[-1:] not in (b"", b"\n"))


def test_windows_line_ends_over_the_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotrope.datasets.verify.CHUNK", 7)
    (tmp_path / "a.txt").write_bytes(TEXT.replace(b"\n", b"\r\n"))
    wrong = fault(tmp_path / "a.txt", file_of(TEXT))
    assert wrong is not None
    assert wrong.kind == "converted"


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.txt")
    assert fault(tmp_path / "a.txt", file_of(TEXT)) == Fault("unreadable", "not a file")
