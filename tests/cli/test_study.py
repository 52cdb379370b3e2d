"""The command line of studies."""

from pathlib import Path

from isotrope.cli.study import _rows


def test_rows_are_named_with_commas_and_in_full(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('title = "t"\n[rows.A]\nsweep = {"train.epochs" = [1, 2]}\n[rows."B, small"]\n[rows.C]')
    assert _rows(str(file), ["A, C", "B, small", "A, epochs = 2"]) == ["A", "C", "B, small", "A, epochs = 2"]
