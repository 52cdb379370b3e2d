"""`isotrope evaluate` and `isotrope case`, from the command line."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer
from typer.testing import CliRunner

from helpers.wordbag import as_lines, own_pairs
from isotrope.cli.main import app
from isotrope.errors import UserError


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A data folder would be evaluated too."""
    monkeypatch.delenv("ISOTROPE_DATA", raising=False)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """The user's own pairs, in a file with a hostile name."""
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "[bold] mine <b>&lt;[_x].tsv"
    path.write_text(as_lines(own_pairs()), encoding="utf-8")
    return path


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def test_own_pairs_and_labelled_texts(tmp_path: Path, cached: Path, pairs: Path) -> None:
    texts = tmp_path / "classes.tsv"
    texts.write_text("".join(f"{a} {i}\t{i % 3}\n" for i, a in enumerate(own_pairs().second)))
    outcome = invoke(
        "evaluate",
        "isotrope/tiny",
        "isotrope/tiny@cls",
        "--suite",
        "sts",
        "--compare",
        "--labels",
        pairs,
        "--labels",
        texts,
        "--json",
        tmp_path / "r.json",
        "--table",
        tmp_path / "r.md",
    )
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stderr.count(" of the processor") == 1, (
        "once, however many models and suites there are"
    )
    kept = json.loads((tmp_path / "r.json").read_text())["isotrope/tiny"]
    assert kept.keys() == {"sts, own data", "retrieval, own data"}
    assert "per_pair" not in kept["sts, own data"][pairs.stem]
    table = (tmp_path / "r.md").read_text()
    assert "nDCG@10" in table
    assert (
        f"judged by 40 pairs of {pairs.stem}".replace("&", "&amp;").replace("<", "&lt;") in table
    ), "no raw HTML"
    assert "<b>" not in table
    assert pairs.stem in outcome.output, "a name is no markup"


def test_results_are_written_before_anything_is_drawn(
    tmp_path: Path, cached: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from isotrope.report import scores

    def fail(*_: object) -> None:
        raise RuntimeError("the table cannot be drawn")

    monkeypatch.setattr(scores, "all_tables", fail)
    with pytest.raises(RuntimeError, match="cannot be drawn"):
        invoke("evaluate", "isotrope/tiny", "--labels", pairs, "--json", tmp_path / "r.json")
    assert "isotrope/tiny" in json.loads((tmp_path / "r.json").read_text())


def test_all_is_checked_before_the_work(
    tmp_path: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from isotrope.evaluation import models

    monkeypatch.setattr(models, "evaluate_models", None)  # no work may begin
    monkeypatch.chdir(tmp_path)
    for options, problem in (
        (["--table", "none/r.md"], "cannot be written"),
        (["--table", "r.pdf"], "written as Markdown"),
        (["--json", "/dev/null"], "cannot be written"),
        (["--compare", "isotrope/tiny"], "one model"),
    ):
        with pytest.raises(UserError, match=problem):
            invoke("evaluate", "isotrope/tiny", "--labels", pairs, *options)


def test_own_pairs_are_judged_alone_unless_a_suite_is_named(
    tmp_path: Path, cached: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever ISOTROPE_DATA holds."""
    monkeypatch.setenv("ISOTROPE_DATA", str(tmp_path / "none"))
    outcome = invoke("evaluate", "isotrope/tiny", "--labels", pairs, "--json", tmp_path / "r.json")
    assert outcome.exit_code == 0, outcome.output
    assert json.loads((tmp_path / "r.json").read_text())["isotrope/tiny"].keys() == {
        "sts, own data"
    }
    with pytest.raises(UserError, match="none does not exist"):
        invoke("evaluate", "isotrope/tiny", "--suite", "sts", "--labels", pairs)
    monkeypatch.delenv("ISOTROPE_DATA")
    with pytest.raises(UserError, match="ISOTROPE_DATA"):
        invoke("evaluate", "isotrope/tiny")


def test_a_case_reads_query_and_candidates_with_their_prompts(
    cached: Path, prompted_model: Path
) -> None:
    command = ["case", prompted_model, "--query", "a river", "--candidate", "the river"]
    cosine = re.compile(r"the river +(\S+)")
    own = SentenceTransformer(str(prompted_model), device="cpu")
    for words, (query, passage) in (
        ([], ("song of ", "a short book on ")),
        (["--document-prompt", "red "], ("song of ", "red ")),
    ):
        a, b = own.encode("a river", prompt=query), own.encode("the river", prompt=passage)
        found = cosine.search(invoke(*command, *words).output)
        assert found
        assert float(found[1]) == pytest.approx(float(own.similarity(a, b)), abs=6e-4)
