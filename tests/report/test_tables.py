"""One table in every format: marks, escapes, files."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotrope.errors import UserError
from isotrope.report.page import Page
from isotrope.report.tables import Table, best_marks, check_table_file, latex, markdown, write_tables


def test_marks() -> None:
    nan = float("nan")
    assert best_marks([[1, 3, 2], [1, 1, nan]], [False, True]) == {
        (1, 1): "best", (2, 1): "second", (0, 2): "best", (1, 2): "best"
    }  # fmt: skip
    assert best_marks([[1.0]], [False]) == {}


TABLE = Table("a & b", ["model", "x_1"], [["m|<1>", "1.00"], ["n", "2.00"]], {(1, 1): "best", (0, 1): "second"})


def test_formats_escape_and_mark() -> None:
    assert markdown([TABLE]).split("\n")[-3:] == ["| m\\|<1> | *1.00* |", "| n | **2.00** |", ""]
    tex = latex([TABLE])
    assert r"\caption{a \& b}" in tex
    assert r"model & x\_1 \\" in tex
    assert r"n & \textbf{2.00} \\" in tex
    shown = Page("t", tables=[TABLE]).html()
    assert "<h3>a &amp; b</h3>" in shown
    assert '<td>m|&lt;1&gt;</td><td class="number second">1.00</td>' in shown


def test_targets_are_checked_before_the_work(tmp_path: Path) -> None:
    for name, problem in (("x.pdf", "no format"), ("none/x.md", "does not exist")):
        with pytest.raises(UserError, match=problem):
            check_table_file(tmp_path / name)
    (tmp_path / "d.md").mkdir()
    with pytest.raises(UserError, match="is a folder"):
        check_table_file(tmp_path / "d.md")
    for ending in (".md", ".tex", ".html"):
        write_tables([TABLE], check_table_file(tmp_path / f"x{ending}"))
        assert "2.00" in (tmp_path / f"x{ending}").read_text()
