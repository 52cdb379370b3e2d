"""``isotrope encode`` at the command line: names are data, whatever they hold."""

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from helpers.commands import Shell
from helpers.forks import code, command

NAMES = ["[/x]", "[bold]a[/bold]", ":smile:", os.fsdecode(b"na\xefve"), "a\x1b[2J"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_no_markup(
    tiny_model: Path, tmp_path: Path, name: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 13, fault 1."""
    monkeypatch.chdir(tmp_path)
    Path(f"{name}.txt").parent.mkdir(parents=True, exist_ok=True)
    Path(f"{name}.txt").write_text("one [/x] two\n[bold]three\n", encoding="utf-8")
    command = ["encode", tiny_model, f"{name}.txt", "--output"]
    if "\udcef" in name:
        shell(*command, f"{name}.parquet").is_mistake(
            "na\\udcefve.parquet.parts is not a path in UTF-8 … another folder"
        )
        name = "v"
    assert shell(*command, f"{name}.parquet")[:2] == (
        0,
        "written to {}.parquet\n".format(name.replace("\x1b", "\\x1b")),
    )
    assert len(pq.read_table(Path(f"{name}.parquet"))) == 2
    shell("encode", tiny_model, f"{name}.csv", "--output", "v.parquet").is_mistake(
        "does not exist … check the path"
    )


def test_an_ascii_terminal(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ü河.txt").write_text("one\n", encoding="utf-8")
    words = ["encode", str(tiny_model), "ü河.txt", "--output", "ü河.parquet"]
    ended = code(command(words, tmp_path, encoding="ascii"))
    assert (ended, Path("out").read_text()) == (0, "written to ??.parquet\n"), Path(
        "err"
    ).read_text()
