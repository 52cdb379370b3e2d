"""What the documents say is made from committed results, and their links lead somewhere."""

import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    """``tools/tables.py``, with what it finds beside itself."""
    sys.path.append(str(ROOT / "tools"))
    return importlib.import_module("tables")


def by_hand() -> list[Path]:
    """The README and every page that is not a table of results."""
    pages = [page for page in DOCS.rglob("*.md") if not page.is_relative_to(DOCS / "results")]
    return [ROOT / "README.md", *pages]


def test_the_tables_of_the_documents_are_those_of_the_result_files(tables: ModuleType) -> None:
    tables.main(check=True)


def test_a_page_that_differs_from_its_results_is_stale(
    tables: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "docs/compress.md"
    monkeypatch.setattr(
        tables, "texts", lambda: [(tmp_path / name, (ROOT / name).read_text(encoding="utf-8"))]
    )
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match=r"compress\.md is stale"):
        tables.main(check=True)
    (tmp_path / name).parent.mkdir()
    tables.main(check=False)
    tables.main(check=True)
    (tmp_path / name).write_text("75.88", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"compress\.md is stale"):
        tables.main(check=True)


def test_every_room_is_on_the_page_of_the_architecture() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    rooms = [file.parent.name for file in (ROOT / "src" / "isotrope").glob("*/__init__.py")]
    assert [room for room in rooms if f"`{room}/`" not in text] == []


def test_links_of_the_documents_lead_to_files() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_no_file_names_a_machine_or_a_registry() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True
    ).stdout.split()
    for name in listed:
        path = ROOT / name
        if (
            path.suffix in {".md", ".py", ".toml", ".json", ".txt", ".cff", ".jsonl"}
            and path.is_file()
        ):
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"(?<![\w.])/(work|root)/\w|index.url ?=", text), name
