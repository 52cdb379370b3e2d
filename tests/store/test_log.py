"""What a process prints, in a file that takes everything."""

from __future__ import annotations

from pathlib import Path

from isotrope.store.log import open_log


def test_a_log_grows_line_by_line_and_takes_any_text(tmp_path: Path) -> None:
    for text in ("first", "na\udcefve"):
        with open_log(tmp_path / "log.txt") as file:
            file.write(f"{text}\n")
    assert (tmp_path / "log.txt").read_text(encoding="utf-8") == "first\nna\\udcefve\n"
