"""What the documents say is made from committed results, and their links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_readme_tables_are_those_of_the_result_files() -> None:
    command = [sys.executable, str(ROOT / "docs" / "results" / "build.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_links_of_the_documents_lead_to_files() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_no_file_names_a_machine_or_a_registry() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    for name in listed:
        path = ROOT / name
        if path.suffix in {".md", ".py", ".toml", ".json", ".txt", ".cff", ".jsonl"} and path.is_file():
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"(?<![\w.])/(work|root)/\w|index.url ?=", text), name
