"""What the documents say is made from committed results, and their links lead somewhere."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from scipy import stats

from isotrope.study.analyse import study_record
from isotrope.study.plan import Place, plan_study
from isotrope.study.spec import read_study

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tools"))  # what tables.py finds beside itself


def builder(docs: Path) -> ModuleType:
    """``tools/tables.py`` as a module."""
    specification = importlib.util.spec_from_file_location("tables", docs.parent / "tools" / "tables.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_tables_of_the_documents_are_those_of_the_result_files() -> None:
    builder(ROOT / "docs").main(check=True)


STUDY = """
title = "Two methods"
note = "A note."
[run]
seeds = 3
backbone = "isotrope/tiny"
dev = ["none"]
test = "none"
[rows.SimCSE]
[rows."All three"]
set = ["views.passes=3"]
[claims.three]
better = "All three"
than = "SimCSE"
text = "three views help"
source = "a paper"
"""


@pytest.fixture
def copied(corpus_file: Path, tmp_path: Path) -> Path:
    """The documents in a folder of their own, with a study on two backbones, of which every score is made up."""
    for page in builder(ROOT / "docs").PAGES:
        target = tmp_path / page.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, target)
    results = tmp_path / "docs" / "results"
    results.mkdir()
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "tables.py", tmp_path / "tools")
    (tmp_path / "first.toml").write_text(STUDY)
    spec = read_study(tmp_path / "first.toml", {"corpus": [str(corpus_file)]})
    planned = plan_study(spec, Place(tmp_path / "out"))
    environment = {"cores": 2, "gpus": [], "packages": {"torch": "2.9"}}
    for cell in planned.cells.values():
        cell.folder.mkdir(parents=True)
        scores = {"Avg.": 50.0 + cell.seed + (0.8 + cell.seed / 10 if "passes" in str(cell.overrides) else 0)}
        scores["nDCG Avg."] = scores["Avg."] - 40
        known = {"preset": cell.preset, "seed": cell.seed, "settings": cell.settings, "scores": scores}
        known |= {"environment": environment, "data": {}, "seconds": {"cell": 3600.0}}
        cell.finish(known)
    for name, backbone in (("first-search", "isotrope/tiny"), ("first-minilm-search", "isotrope/other")):
        (results / "studies" / name).mkdir(parents=True)
        record = study_record(planned) | {"figures": {}}
        record["scale"]["backbones"] = [backbone]
        (results / "studies" / name / "study.json").write_text(json.dumps(record))
    return tmp_path / "docs"


def test_committed_studies_fill_the_documents(copied: Path) -> None:
    with pytest.raises(SystemExit, match="stale"):
        builder(copied).main(check=True)
    builder(copied).main(check=False)
    builder(copied).main(check=True)
    readme, page = ((copied.parent / name).read_text() for name in ("README.md", "docs/studies.md"))
    assert "## What the methods give" in readme
    for place, backbone in (("first-search", "isotrope/tiny"), ("first-minilm-search", "isotrope/other")):
        assert f"[{backbone}](docs/results/studies/{place}/table.md): Avg. |" in readme
        assert f"[{backbone}](docs/results/studies/{place}/table.md): search |" in readme
    assert f"| All three |{2 * ' **51.90 ± 1.10 (3)** | **11.90 ± 1.10 (3)** |'}" in readme
    assert f"| SimCSE |{2 * ' *51.00 ± 1.00 (3)* | *11.00 ± 1.00 (3)* |'}" in readme
    assert (
        "| [first-search](results/studies/first-search/table.md) | isotrope/tiny | all | 3 | 6 | 6.0 | 2 cores" in page
    )
    assert "A note." in page
    assert "- **The study first-minilm-search.** A note." in readme
    low, high = stats.t.interval(0.95, 2, 0.9, 0.1 / 3**0.5)
    answer = f"holds: +0.90 (+{low:.2f} … +{high:.2f})"
    assert f"| three views help (a paper) | All three − SimCSE | {answer} | {answer} |" in page
    assert "| claim | difference | first-minilm-search (Avg.) | first-search (Avg.) |" in page
    assert answer.removeprefix("holds: ") in (copied / "results/studies/first-minilm-search/table.md").read_text()


def test_a_page_that_says_something_else_than_its_study_is_stale(copied: Path) -> None:
    builder(copied).main(check=False)
    file = copied / "results" / "studies" / "first-search" / "study.json"
    record = json.loads(file.read_text())
    record["rows"][1]["scores"]["0"]["Avg."] = 90.0
    file.write_text(json.dumps(record))
    with pytest.raises(SystemExit, match=r"README\.md is stale"):
        builder(copied).main(check=True)
    builder(copied).main(check=False)
    table = file.with_name("table.md")
    table.write_text(table.read_text().replace("90", "91"))
    (copied / "results" / "studies" / "first-minilm-search" / "table.md").unlink()
    with pytest.raises(SystemExit, match=r"first-minilm-search/table\.md is stale"):
        builder(copied).main(check=True)


def test_without_a_study_the_readme_says_nothing_of_one(copied: Path) -> None:
    shutil.rmtree(copied / "results" / "studies")
    builder(copied).main(check=False)
    assert "What the methods give" not in (copied.parent / "README.md").read_text()
    assert "No study is committed yet." in (copied / "studies.md").read_text()


def test_links_of_the_documents_lead_to_files() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_no_file_names_a_machine_or_a_registry() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    for name in listed:
        path = ROOT / name
        if path.suffix in {".md", ".py", ".toml", ".json", ".txt", ".cff", ".jsonl"} and path.is_file():
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"(?<![\w.])/(work|root)/\w|index.url ?=", text), name


@pytest.mark.parametrize("page", ["README.md", "docs/guide.md"])
def test_sentences_are_short(page: str) -> None:
    import readability

    assert readability.average(ROOT / page) <= 20
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_words_of_a_sentence_are_counted_without_code_tables_and_addresses() -> None:
    import readability

    text = "# A title\n\nOne two, e.g. `a b c` four. Five [six](a.md)!\n\n```\nno word\n```\n| a | b |\n- seven 8\n"
    assert [readability.words(one) for one in readability.sentences(text)] == [5, 2, 2]
