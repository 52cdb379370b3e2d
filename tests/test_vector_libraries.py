"""What `isotrope encode` writes opens elsewhere as docs/encode.md shows, and finds what we find.

The snippets of the page are run as they are, where their packages install.
"""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers.paths import ROOT
from helpers.words import sentences
from isotrope.encoding.encode import encode
from isotrope.encoding.search import search

PAGE = ROOT / "docs" / "encode.md"
QUERY = "a long river"


def snippet(title: str) -> str:
    """The Python block under a heading of the page."""
    section = PAGE.read_text(encoding="utf-8").split(f"### {title}\n", 1)[1]
    block = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert block
    return block[1]


@pytest.fixture
def expected(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that our own search finds, in the folder in which the snippets run."""
    shutil.copytree(tiny_model, tmp_path / "MODEL")
    monkeypatch.chdir(tmp_path)
    encode("MODEL", [*sentences(300), QUERY], "notes", shard=70)
    return [str(hit.fields["text"]) for hit in search("notes", QUERY, top=3)[0]]


@pytest.mark.parametrize(
    ("title", "package"),
    [
        ("NumPy", "numpy"),
        ("faiss", "faiss"),
        ("DuckDB", "duckdb"),
        ("A vector store: Qdrant", "qdrant_client"),
    ],
)
def test_another_library_finds_the_same(expected: list[str], title: str, package: str) -> None:
    pytest.importorskip(package)
    names: dict[str, Any] = {}
    exec(compile(snippet(title), f"{PAGE}: {title}", "exec"), names)
    assert names["found"] == expected
