"""Tables as files: targets are checked before the work."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotrope.errors import UserError
from isotrope.report.table_files import check_table_file, write_tables
from isotrope.report.tables import Table

TABLE = Table("a & b", ["model", "x_1"], [["m|<1>", "1.00"], ["n", "2.00"]])


def test_targets_are_checked_before_the_work(tmp_path: Path) -> None:
    for name, problem in (("x.pdf", "unknown format"), ("none/x.md", "does not exist")):
        with pytest.raises(UserError, match=problem):
            check_table_file(tmp_path / name)
    (tmp_path / "d.md").mkdir()
    with pytest.raises(UserError, match="is a folder"):
        check_table_file(tmp_path / "d.md")
    for ending in (".md", ".tex", ".html"):
        write_tables([TABLE], check_table_file(tmp_path / f"x{ending}"))
        assert "2.00" in (tmp_path / f"x{ending}").read_text()
